import { HostError } from '../../work/host-error.ts';
import type { JsonReader } from '../../work/json-reader.ts';
import { noteMissing } from '../../work/reply-budget.ts';
import type { HostCheck, RepoPath } from '../host.ts';
import type { GithubApi } from './api.ts';

const limits = { checks: 1_000, annotated: 20, annotations: 20, summaryLength: 1_000 };

interface Found {
  /** The larger one is newer. */
  readonly number: number;
  /** Workflows may have jobs of the same name: each workflow run has a check suite. Empty for a commit status. */
  readonly suite: string;
  readonly annotations: number;
  readonly check: HostCheck;
}

/** The check runs and the older commit statuses of a commit, the newest of each suite and name. */
export async function readChecks(api: GithubApi, repo: RepoPath, sha: string): Promise<HostCheck[]> {
  const at = api.in(repo);
  const runs = { path: at`/commits/${sha}/check-runs`, query: { filter: 'latest' } };
  const statuses = { path: at`/commits/${sha}/status` };
  const [found, older] = await Promise.all([
    orNone(
      'checks: read',
      api.list(repo, runs, checkRun, limits.checks, (page) => page.list('check_runs')),
    ),
    orNone(
      'statuses: read',
      api.list(repo, statuses, commitStatus, limits.checks, (page) => page.list('statuses')),
    ),
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
        ? {
            ...item.check,
            annotations: await orNone('checks: read', readAnnotations(api, repo, item.number)),
          }
        : item.check,
    ),
  );
}

/** Without the permission to read them there are none, so that reviews still reach the agent. */
const orNone = <T>(permission: string, reading: Promise<readonly T[]>): Promise<readonly T[]> =>
  reading.catch((error: unknown) => {
    if (!(error instanceof HostError && error.kind === 'refused' && error.status === 403)) throw error;
    noteMissing(permission);
    return [];
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
    if (!(error instanceof HostError && [403, 404, 410].includes(error.status) && error.kind === 'refused'))
      throw error;
    if (error.status === 403) noteMissing('actions: read');
    return '';
  }
}

function newest(found: readonly Found[]): Found[] {
  const known = new Map<string, Found>();
  for (const item of found) {
    const key = JSON.stringify([item.suite, item.check.name]);
    const other = known.get(key);
    if (!other || other.number < item.number) known.set(key, item);
  }
  return [...known.values()];
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
    suite: String(run.find('check_suite')?.numberOrNull('id') ?? ''),
    annotations: output?.numberOrNull('annotations_count') ?? 0,
    check: {
      id: jobOf(run, number),
      name: run.text('name'),
      state: isComplete ? (stateOfConclusion[conclusion] ?? 'FAILED') : 'PENDING',
      url: run.url('html_url') || run.url('details_url'),
      summary: words.filter(Boolean).join(': ').slice(0, limits.summaryLength),
      annotations: [],
    },
  };
}

/** A check run of GitHub Actions has the number of its job; it is also at the end of the link to the job. */
function jobOf(run: JsonReader, number: number): string {
  const [, job] = /\/actions\/runs\/\d+\/job\/(\d+)/.exec(run.url('details_url')) ?? [];
  return job ?? (run.find('app')?.textOrEmpty('slug') === 'github-actions' ? String(number) : '');
}

const stateOfStatus: Readonly<Record<string, HostCheck['state']>> = { success: 'PASSED', pending: 'PENDING' };

function commitStatus(status: JsonReader): Found {
  return {
    number: status.number('id'),
    suite: '',
    annotations: 0,
    check: {
      id: '',
      name: status.text('context'),
      state: stateOfStatus[status.text('state')] ?? 'FAILED',
      url: status.url('target_url'),
      summary: status.textOrEmpty('description').slice(0, limits.summaryLength),
      annotations: [],
    },
  };
}

function readAnnotations(
  api: GithubApi,
  repo: RepoPath,
  run: number,
): Promise<HostCheck['annotations'][number][]> {
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
