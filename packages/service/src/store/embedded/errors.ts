/** Another service, or a PostgreSQL that somebody started by hand, is working on the same folder. */
export class FolderInUseError extends Error {
  override readonly name = 'FolderInUseError';
  readonly folder: string;
  readonly pid: number | undefined;

  constructor(folder: string, pid: number | undefined) {
    const holder = pid === undefined ? 'a process that cannot be seen from here' : `process ${pid}`;
    super(`The folder ${folder} is in use by ${holder}; stop it first, or use another folder.`);
    this.folder = folder;
    this.pid = pid;
  }
}

/** This machine cannot run the PostgreSQL that comes with Muster; the way out is a server of the user's own. */
export class EmbeddedPostgresUnavailableError extends Error {
  override readonly name = 'EmbeddedPostgresUnavailableError';

  constructor(why: string) {
    super(
      `The built-in PostgreSQL cannot run here: ${why}. Set DATABASE_URL to use a PostgreSQL of your own.`,
    );
  }
}

/** PostgreSQL was found and can run, and yet did not start. */
export class EmbeddedPostgresFailedError extends Error {
  override readonly name = 'EmbeddedPostgresFailedError';

  constructor(what: string, output = '') {
    super(output === '' ? what : `${what}\n${output}`);
  }
}
