export interface Page<T> {
  readonly entries: readonly T[];
  /** Empty at the end. */
  readonly nextPageToken: string;
}

/** The entries of all pages, read as they are needed. */
export async function* pages<T>(
  firstToken: string | undefined,
  read: (pageToken: string) => Promise<Page<T>>,
): AsyncGenerator<T, void, void> {
  let token = firstToken ?? '';
  do {
    const { entries, nextPageToken } = await read(token);
    yield* entries;
    token = nextPageToken;
  } while (token !== '');
}
