import type { Observation } from '@muster/sdk/contract';
import type { Metrics } from '../../lib/metrics.ts';
import { modelFamily } from '../../lib/models.ts';

/** Adds what a runner has measured to the metrics of the node that it polls. */
export function noteObserved(observed: readonly Observation[], metrics: Metrics): void {
  for (const { what, provider, model = '', outcome = 'ok', times = 1, ...measured } of observed) {
    if (what === 'checkpointFailed') metrics.add('muster_checkpoint_failures_total', {}, times);
    if (what === 'checkpointFailed' || provider === undefined) continue;
    // Of several, the durations are their sum: each counts with the mean.
    const each = (seconds: number, observe: (mean: number) => void) => {
      for (let i = 0; i < times; i += 1) observe(seconds / times);
    };
    const { seconds = 0, firstByteSeconds } = measured;
    if (what === 'limit') {
      each(seconds, (mean) => metrics.observe('muster_provider_limit_wait_seconds', { provider }, mean));
      continue;
    }
    const by = { provider, family: modelFamily(model) };
    each(seconds, (mean) => metrics.observe('muster_provider_request_seconds', { ...by, outcome }, mean));
    if (firstByteSeconds !== undefined)
      each(firstByteSeconds, (mean) => metrics.observe('muster_provider_first_byte_seconds', by, mean));
    const tokens = {
      input: measured.inputTokens,
      cached_input: measured.cachedInputTokens,
      output: measured.outputTokens,
    };
    for (const [type, count = 0] of Object.entries(tokens))
      if (count > 0) metrics.add('muster_provider_tokens_total', { ...by, type }, count);
    metrics.add('muster_provider_cost_usd_total', by, measured.costUsd ?? 0);
  }
}
