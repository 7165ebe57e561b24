/** Addresses of APIs: people and git use another one. */
const apiPath = /\/api(\/(v\d+|graphql))?\/*$/i;

/** What is wrong with the address of a code host, and what is right; null if it can be used. */
export function hostUrlProblem(type: unknown, url: string): string | null {
  const got = `; got ${JSON.stringify(url.slice(0, 200))}`;
  const expected = 'expected the address that people use, such as https://git.example.com';
  const parsed = URL.canParse(url) ? new URL(url) : null;
  const isWeb = parsed?.protocol === 'https:' || parsed?.protocol === 'http:';
  if (!parsed || !isWeb || !/^https?:\/\//i.test(url)) {
    const isHost = /^[\w.-]+(:\d+)?(\/|$)/.test(url) && URL.canParse(`https://${url}`);
    return isHost ? `expected https://${url.slice(0, 200)}, with its scheme${got}` : `${expected}${got}`;
  }
  // The value may have a password, so it is not repeated.
  if (parsed.username || parsed.password) return `${expected}, without a user name and password`;
  if (parsed.search || parsed.hash) return `${expected}, without a query and fragment${got}`;
  const { origin, pathname, hostname } = parsed;
  if (hostname === 'api.github.com') return `expected https://github.com, not the address of its API${got}`;
  if (apiPath.test(pathname))
    return `expected ${origin}${pathname.replace(apiPath, '')}, without the path of the API${got}`;
  const hasNoPath = type === 'github' || hostname === 'gitlab.com';
  return hasNoPath && /[^/]/.test(pathname)
    ? `expected ${origin}, without a path: \`repos\` says which repositories are meant${got}`
    : null;
}
