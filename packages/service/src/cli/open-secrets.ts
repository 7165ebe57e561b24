import { randomBytes } from 'node:crypto';
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type pg from 'pg';
import { messageOf } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { ServiceSecret, ServiceSecrets } from '../lib/service-secret.ts';
import { readSecretFingerprint, recordSecretFingerprint } from '../store/statements/service-secret.ts';
import { type Config, leastSecretLength } from './config.ts';
import { secretFile } from './data-folder.ts';
import { ConfigError } from './variables.ts';

type SecretSettings = Pick<Config, 'dataFolder' | 'secret' | 'previousSecret' | 'lostSecret'>;

/**
 * The secrets of this node. The database has the fingerprint of the current secret of the node that started last. A node
 * that has this secret neither as its current nor as its previous one can't use what the others make, so it does not start.
 */
export async function openSecrets(
  config: SecretSettings,
  database: pg.Pool,
  log: Log,
): Promise<ServiceSecrets> {
  const { previousSecret, lostSecret } = config;
  const recorded = await recordedFingerprint(database);
  const replaceable = [lostSecret, previousSecret && new ServiceSecret(previousSecret).id].filter(
    (id) => id !== null,
  );
  const isReplaced = recorded === null || replaceable.includes(recorded);
  const current = nodeSecret(config) ?? (isReplaced ? createSecret(config) : null);
  if (current !== null) {
    const secrets = new ServiceSecrets(current, previousSecret);
    const { id } = secrets.current;
    const [accepted] = await recordSecretFingerprint(database, id, replaceable);
    if (accepted && recorded !== null && recorded !== id)
      log.warn({ before: recorded, now: id }, 'service secret replaced');
    if (accepted) return secrets;
  }
  throw new ConfigError(mismatch(config, current, (await recordedFingerprint(database)) ?? ''));
}

/** The secret that nodes share: MUSTER_SECRET, or the file in the data folder. */
function nodeSecret({ dataFolder, secret }: SecretSettings): string | null {
  if (secret !== null) return secret;
  try {
    const kept = readFileSync(secretFile(dataFolder), 'utf8').trim();
    if (kept.length >= leastSecretLength) return kept;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return null;
  }
  throw new ConfigError(
    `the service secret in ${secretFile(dataFolder)} is incomplete\nRestore the file, or remove it if no service has used its database yet.`,
  );
}

function createSecret(config: SecretSettings): string | null {
  const file = secretFile(config.dataFolder);
  const unfinished = `${file}.${process.pid}`;
  try {
    // A process that is killed here leaves no secret rather than half of one.
    writeFileSync(unfinished, randomBytes(48).toString('base64url'), { mode: 0o600, flush: true });
    linkSync(unfinished, file);
  } catch (error) {
    // Another process has just created it.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(unfinished, { force: true });
  }
  return nodeSecret(config);
}

async function recordedFingerprint(database: pg.Pool): Promise<string | null> {
  return (await readSecretFingerprint(database))[0]?.fingerprint ?? null;
}

function mismatch({ dataFolder, secret }: SecretSettings, current: string | null, recorded: string): string {
  const file = secretFile(dataFolder);
  const received =
    current === null
      ? `the service secret is missing: MUSTER_SECRET is not set, and there is no file ${file}`
      : `${secret === null ? `the file ${file}` : 'MUSTER_SECRET'} has another service secret (fingerprint ${new ServiceSecret(current).id})`;
  return [
    `${received}. The database was last used with the secret that has the fingerprint ${recorded}.`,
    `Set MUSTER_SECRET to the secret of the other nodes, or restore the file "secret" of the data folder that was used with this database, as ${file}.`,
    'To rotate the secret, set MUSTER_SECRET_PREVIOUS to the old one.',
    `If the old secret is lost, start with MUSTER_SECRET_LOST=${recorded}: values of secrets and signing keys that depend on it are then lost too (docs/operations.md, "A lost service secret").`,
  ].join('\n');
}

/** Why a node with this configuration would not start on the database. Changes nothing. */
export async function secretProblem(config: SecretSettings, database: pg.Pool): Promise<string | null> {
  const recorded = await recordedFingerprint(database).catch((error: { code?: string }) => {
    // The schema is that of an earlier version, or empty.
    if (error.code === '42P01') return null;
    throw error;
  });
  let current: string | null;
  try {
    current = nodeSecret(config);
  } catch (error) {
    return messageOf(error);
  }
  const known = [current, config.previousSecret].map((secret) => secret && new ServiceSecret(secret).id);
  const fits = recorded === null || [...known, config.lostSecret].includes(recorded);
  return fits ? null : mismatch(config, current, recorded);
}
