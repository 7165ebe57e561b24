import { HostError } from '../../work/host-error.ts';
import type { HttpClient } from '../../work/http-client.ts';
import type { JsonReader } from '../../work/json-reader.ts';
import type { HostCheck } from '../host.ts';
import { orEmpty } from '../or-refusal.ts';
import type { ProjectPaths } from './paths.ts';

const limits = { checks: 1_000, requests: 20, summaryLength: 1_000 };

interface Found {
  /** The larger one is newer. */
  readonly number: number;
  readonly key: string;
  readonly ref: string;
  /** As GitLab names it. */
  readonly status: string;
  readonly check: HostCheck;
}

/**
 * The jobs and the statuses of other systems at a commit, which GitLab has in one list. The pipeline for the merged
 * result of a merge request runs at a commit that is not part of the request, so its jobs are read separately.
 */
export async function readChecks(
  client: HttpClient,
  at: ProjectPaths,
  sha: string,
): Promise<readonly HostCheck[]> {
  const path = at`/repository/commits/${sha}/statuses`;
  const found = Promise.all([
    client.list({ path }, statusOf, limits.checks),
    jobsOfMergedResults(client, at, sha),
  ]);
  // GitLab may not know the commit.
  return withoutBlocked(newest((await orEmpty(found, 404)).flat())).map(({ check }) => check);
}

async function jobsOfMergedResults(
  client: HttpClient,
  at: ProjectPaths,
  sha: string,
): Promise<readonly Found[]> {
  const request = { path: at`/repository/commits/${sha}/merge_requests`, query: { state: 'opened' } };
  const read = (item: JsonReader) => ({ number: item.number('iid'), sha: item.textOrEmpty('sha') });
  const requests = await client.list(request, read, limits.requests);
  const jobs = await Promise.all(
    requests
      .filter((found) => found.sha === sha)
      .map(async ({ number }) => {
        const pipeline = await client.call({ path: at`/merge_requests/${number}` }, (reply) => {
          const head = reply.find('head_pipeline');
          return head && head.text('sha') !== sha ? head.number('id') : null;
        });
        return pipeline === null
          ? []
          : client.list({ path: at`/pipelines/${pipeline}/jobs` }, jobOf, limits.checks);
      }),
  );
  return jobs.flat();
}

/** A job that ran again, or ran in another pipeline of the same branch, counts once. */
function newest(found: readonly Found[]): readonly Found[] {
  const byKey = new Map<string, Found>();
  for (const item of found) {
    const other = byKey.get(item.key);
    if (!other || other.number < item.number) byKey.set(item.key, item);
  }
  return [...byKey.values()];
}

const waiting = ['created', 'manual'];

/**
 * Jobs that wait for a manual job do not start by themselves, so they do not count as pending. A job waits for one if
 * it is `created`, its branch has a manual job, and no other job of the branch is active.
 */
function withoutBlocked(found: readonly Found[]): readonly Found[] {
  const isActive = ({ status, check }: Found) => check.state === 'PENDING' && !waiting.includes(status);
  const active = new Set(found.filter(isActive).map(({ ref }) => ref));
  const manual = new Set(found.filter(({ status }) => status === 'manual').map(({ ref }) => ref));
  return found.map((item) =>
    item.status === 'created' && manual.has(item.ref) && !active.has(item.ref)
      ? { ...item, check: { ...item.check, state: 'SKIPPED' } }
      : item,
  );
}

function statusOf(status: JsonReader): Found {
  const url = status.url('target_url');
  const number = status.number('id');
  const name = status.text('name');
  // Jobs and other statuses have numbers of one row; only jobs have a log.
  const isJob = new RegExp(`/(?:jobs|builds)/${number}(?:\\D|$)`).test(url);
  return {
    number,
    key: `${status.textOrEmpty('ref')}\n${name}`,
    ref: status.textOrEmpty('ref'),
    status: status.text('status'),
    check: {
      id: isJob ? String(number) : '',
      name,
      state: stateOf(status),
      url,
      summary: status.textOrEmpty('description').slice(0, limits.summaryLength),
      annotations: [],
    },
  };
}

function jobOf(job: JsonReader): Found {
  const number = job.number('id');
  const name = job.text('name');
  return {
    number,
    key: `${job.textOrEmpty('ref')}\n${name}`,
    ref: job.textOrEmpty('ref'),
    status: job.text('status'),
    check: {
      id: String(number),
      name,
      state: stateOf(job),
      url: job.url('web_url'),
      summary: job.textOrEmpty('failure_reason').slice(0, limits.summaryLength),
      annotations: [],
    },
  };
}

const states: Readonly<Record<string, HostCheck['state']>> = {
  success: 'PASSED',
  failed: 'FAILED',
  canceled: 'SKIPPED',
  canceling: 'SKIPPED',
  skipped: 'SKIPPED',
  manual: 'SKIPPED',
};

/** A job that may fail does not fail the pipeline. */
function stateOf(job: JsonReader): HostCheck['state'] {
  const state = states[job.text('status')] ?? 'PENDING';
  return state === 'FAILED' && job.flag('allow_failure') ? 'PASSED' : state;
}

/** Marks that fold sections of a log. */
const sections = /section_(?:start|end):\d+:[^\r\n]*\r/g;

/** The end of the log of a job; other checks have none, and old ones are deleted. */
export async function readEndOfLog(
  client: HttpClient,
  at: ProjectPaths,
  { id }: HostCheck,
  bytes: number,
): Promise<string> {
  if (id === '') return '';
  try {
    return (await client.endOfText({ path: at`/jobs/${id}/trace` }, bytes)).replace(sections, '');
  } catch (error) {
    if (error instanceof HostError && error.kind === 'refused' && [403, 404].includes(error.status))
      return '';
    throw error;
  }
}
