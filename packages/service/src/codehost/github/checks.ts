import { type HostCheck, HostError, type RepoPath } from '../host.ts';
import type { JsonReader } from '../json-reader.ts';
import type { GithubApi } from './api.ts';

const limits = { checks: 1_000, annotated: 20, annotations: 20, summaryLength: 1_000 };

interface Found {
  /** The larger one is newer. */
  readonly number: number;
  readonly annotations: number;
  readonly check: HostCheck;
}

/** The check runs and the older commit statuses of a commit, the newest of each name. */
export async function readChecks(api: GithubApi, repo: RepoPath, sha: string): Promise<HostCheck[]> {
  const at = api.in(repo);
  const runs = { path: at`/commits/${sha}/check-runs`, query: { filter: 'latest' } };
  const statuses = { path: at`/commits/${sha}/status` };
  const [found, older] = await Promise.all([
    orNone(api.list(repo, runs, checkRun, limits.checks, (page) => page.list('check_runs'))),
    orNone(api.list(repo, statuses, commitStatus, limits.checks, (page) => page.list('statuses'))),
  ]);
  const checks = [...newest(found), ...newest(older)];
  const annotated = new Set(
    checks
      .filter(({ annotations, check }) => annotations > 0 && check.state === 'FAILED')
      .slice(0, limits.annotated),
  );
  return Promise.all(
    checks.map(async (item) =>
      annotated.has(item)
        ? { ...item.check, annotations: await readAnnotations(api, repo, item.number) }
        : item.check,
    ),
  );
}

/** Without the permission to read checks there are none, so that reviews still reach the agent. */
const orNone = <T>(reading: Promise<T[]>): Promise<T[]> =>
  reading.catch((error: unknown) => {
    if (error instanceof HostError && error.kind === 'refused' && error.status === 403) return [];
    throw error;
  });

/** The end of the log of a job of GitHub Actions; other checks have no log here. Old logs are deleted. */
export async function readEndOfLog(
  api: GithubApi,
  repo: RepoPath,
  { id }: HostCheck,
  bytes: number,
): Promise<string> {
  if (id === '') return '';
  try {
    return await api.endOfText(repo, { path: api.in(repo)`/actions/jobs/${id}/logs` }, bytes);
  } catch (error) {
    if (error instanceof HostError && [403, 404, 410].includes(error.status) && error.kind === 'refused')
      return '';
    throw error;
  }
}

function newest(found: readonly Found[]): Found[] {
  const byName = new Map<string, Found>();
  for (const item of found) {
    const other = byName.get(item.check.name);
    if (!other || other.number < item.number) byName.set(item.check.name, item);
  }
  return [...byName.values()];
}

const stateOfConclusion: Readonly<Record<string, HostCheck['state']>> = {
  success: 'PASSED',
  neutral: 'PASSED',
  skipped: 'SKIPPED',
  stale: 'SKIPPED',
};

function checkRun(run: JsonReader): Found {
  const output = run.find('output');
  const conclusion = run.textOrEmpty('conclusion');
  const isComplete = run.text('status') === 'completed';
  const number = run.number('id');
  const words = [conclusion, output?.textOrEmpty('title'), output?.textOrEmpty('summary')];
  return {
    number,
    annotations: output?.numberOrNull('annotations_count') ?? 0,
    check: {
      id: jobOf(run, number),
      name: run.text('name'),
      state: isComplete ? (stateOfConclusion[conclusion] ?? 'FAILED') : 'PENDING',
      url: run.textOrEmpty('html_url') || run.textOrEmpty('details_url'),
      summary: words.filter(Boolean).join(': ').slice(0, limits.summaryLength),
      annotations: [],
    },
  };
}

/** A check run of GitHub Actions has the number of its job; it is also at the end of the link to the job. */
function jobOf(run: JsonReader, number: number): string {
  const [, job] = /\/actions\/runs\/\d+\/job\/(\d+)/.exec(run.textOrEmpty('details_url')) ?? [];
  return job ?? (run.find('app')?.textOrEmpty('slug') === 'github-actions' ? String(number) : '');
}

const stateOfStatus: Readonly<Record<string, HostCheck['state']>> = { success: 'PASSED', pending: 'PENDING' };

function commitStatus(status: JsonReader): Found {
  return {
    number: status.number('id'),
    annotations: 0,
    check: {
      id: '',
      name: status.text('context'),
      state: stateOfStatus[status.text('state')] ?? 'FAILED',
      url: status.textOrEmpty('target_url'),
      summary: status.textOrEmpty('description').slice(0, limits.summaryLength),
      annotations: [],
    },
  };
}

function readAnnotations(api: GithubApi, repo: RepoPath, run: number): Promise<HostCheck['annotations']> {
  const request = {
    path: api.in(repo)`/check-runs/${run}/annotations`,
    query: { per_page: limits.annotations },
  };
  return api.list(
    repo,
    request,
    (annotation) => ({
      path: annotation.text('path'),
      line: annotation.number('start_line'),
      message: annotation.textOrEmpty('message'),
    }),
    limits.annotations,
  );
}
