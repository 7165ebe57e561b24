import { cpus, loadavg } from 'node:os';
import type { Browser } from 'playwright-core';
import { median, percentile, startService } from '../../bench/tools.ts';
import { sharedChromium } from '../../support/browser.ts';
import { latencyFromAgent, latencyFromRunner, latencyWords } from './entry-latency.ts';
import { firstLoadKb } from './first-load.ts';
import { fewAgents, firstRows, manyAgents } from './first-row.ts';
import { type FleetAtWork, fleetSize, startFleetAtWork } from './fleet-at-work.ts';
import { Gates } from './gates.ts';
import { mostFrameMs, scrollThroughAgents } from './long-list.ts';
import { openTranscripts } from './long-transcript.ts';
import { reviewedLines, scrollReview } from './review-scroll.ts';
import { members, openTeamPages, runners } from './team-pages.ts';

/**
 * Measures the dashboard in Chromium against a real service on this machine. The limits are ratios of two values of the
 * same run, because a slow machine changes both alike, or durations that people notice.
 */
const seconds = Number(process.env.MUSTER_BENCH_SECONDS ?? 60);
const parts = process.argv.slice(2);
const wants = (part: string): boolean => parts.length === 0 || parts.includes(part);
const gates = new Gates();
const ms = (value: number): string => `${value.toFixed(1)} ms`;

async function live(browser: Browser, fleet: FleetAtWork): Promise<void> {
  const written = await latencyFromAgent(browser, fleet, seconds);
  const { sent, stored } = await latencyFromRunner(browser, fleet, seconds);
  gates.note(`${fleetSize} agents at an entry per second; entries looked at`, String(written.bareMs.length));
  for (const [from, { bareMs, pageMs }] of [
    ['written by the agent', written],
    ['sent by its runner', sent],
    ['stored by the service', stored],
  ] as const) {
    gates.note(`${from} → received by a bare client, median / p95`, latencyWords(bareMs));
    gates.note(`${from} → on the screen, median / p95`, latencyWords(pageMs));
    const ratio = median(pageMs) / median(bareMs);
    const what = `${from} → on the screen, against the bare client`;
    if (from === 'written by the agent') gates.most(what, ratio, 3);
    else gates.note(what, ratio.toFixed(2));
  }
  const p95 = percentile(written.pageMs, 0.95) / percentile(written.bareMs, 0.95);
  gates.most('written by the agent → on the screen, against the bare client, at p95', p95, 3);
}

async function atWork(browser: Browser): Promise<void> {
  const fleet = await startFleetAtWork();
  try {
    if (wants('live')) await live(browser, fleet);
    if (wants('list')) {
      const { frames, rows, medianMs, longestMs, tooLong, longestEmptyMs } = await scrollThroughAgents(
        browser,
        fleet,
      );
      gates.note('scroll through 10,000 agents: frames, agents that were seen', `${frames}, ${rows}`);
      gates.note('its median frame', ms(medianMs));
      gates.note('the longest frame of an empty page that does nothing', ms(longestEmptyMs));
      gates.note(`its frames over ${mostFrameMs} ms`, String(tooLong));
      gates.most('its longest frame', longestMs, mostFrameMs, ' ms');
    }
  } finally {
    await fleet.service.close();
  }
}

async function atRest(browser: Browser): Promise<void> {
  const service = await startService();
  try {
    if (wants('load'))
      gates.most('JavaScript of the first load, gzip', await firstLoadKb(browser, service), 180, ' KB');
    if (wants('transcript')) {
      const { shortMs, longMs } = await openTranscripts(browser, service);
      gates.note('a transcript of 500 / 50,000 entries opens in', `${ms(shortMs)} / ${ms(longMs)}`);
      gates.most('50,000 entries against 500', longMs / shortMs, 1.5);
    }
    if (wants('review')) {
      const { review, plain } = await scrollReview(browser, service);
      gates.note(
        `scroll through a review of ${reviewedLines} lines: median / p95 frame`,
        `${ms(review.medianMs)} / ${ms(review.p95Ms)}`,
      );
      gates.note('the same lines on a plain page', `${ms(plain.medianMs)} / ${ms(plain.p95Ms)}`);
      gates.note(
        'the review against the plain page, at the median',
        (review.medianMs / plain.medianMs).toFixed(2),
      );
    }
    if (wants('team')) {
      const { homeMs, teamMs, runnersMs, settingsMs } = await openTeamPages(browser, service);
      gates.note('the home list opens in', ms(homeMs));
      gates.most(`Team with ${members} members, against the home list`, teamMs / homeMs, 2);
      gates.most(`Runners with ${runners}, against the home list`, runnersMs / homeMs, 2);
      gates.most('Settings, against the home list', settingsMs / homeMs, 2);
    }
  } finally {
    await service.close();
  }
}

async function rows(browser: Browser): Promise<void> {
  const { fewMs, manyMs } = await firstRows(browser);
  gates.note(`the first row of ${fewAgents} / ${manyAgents} agents`, `${ms(fewMs)} / ${ms(manyMs)}`);
  gates.most(`${manyAgents} agents against ${fewAgents}`, manyMs / fewMs, 1.2);
}

// Frames are measured with the wall clock, so other load on the machine counts.
const load = (): string => `${loadavg()[0]?.toFixed(1)} on ${cpus().length} cores`;
const loadBefore = load();
const browser = await sharedChromium();
try {
  if (wants('live') || wants('list')) await atWork(browser);
  if (wants('rows')) await rows(browser);
  if (wants('load') || wants('transcript') || wants('review') || wants('team')) await atRest(browser);
} finally {
  await browser.close();
}
gates.note('load of the machine, before / after', `${loadBefore} / ${load()}`);
process.stdout.write(`${gates.table()}\n`);
if (gates.missed.length > 0) {
  process.stdout.write(`\n${gates.missed.length} gate(s) missed: ${gates.missed.join('; ')}\n`);
  process.exit(1);
}
