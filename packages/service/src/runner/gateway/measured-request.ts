import type { ModelProvider, Observation, requestOutcomes } from '@muster/sdk/contract';
import type { Usage } from '../../harness/harness.ts';
import { modelFamily } from '../../lib/models.ts';
import type { Observed } from '../observed.ts';
import type { ChatSpan } from '../run/run-trace.ts';
import type { AnswerUsage } from './provider-protocols.ts';

type Outcome = (typeof requestOutcomes)[number];

/** By the error that a span ends with: the status of the answer, or what went wrong before there was one. */
function outcomeOf(error: string | undefined): Outcome {
  if (error === undefined) return 'ok';
  if (error === 'cancelled') return 'cancelled';
  if (error === '401' || error === '403') return 'key_refused';
  if (error === '429') return 'limited';
  if (/^[45]\d\d$/.test(error)) return error.startsWith('5') ? 'provider_error' : 'refused';
  return error === '_OTHER' ? 'provider_error' : 'unreachable';
}

/** One request to a model: measured for the metrics, and recorded in the trace of the run if there is one. */
export class MeasuredRequest implements ChatSpan {
  readonly #observed: Pick<Observed, 'add'>;
  readonly #span: ChatSpan | undefined;
  readonly #startedMs = performance.now();
  #observation: Observation;
  #error: string | undefined;
  #hasEnded = false;

  constructor(
    observed: Pick<Observed, 'add'>,
    { provider, model }: { readonly provider: ModelProvider; readonly model: string },
    span: ChatSpan | undefined,
  ) {
    this.#observed = observed;
    this.#span = span;
    this.#observation = { what: 'request', provider, model: modelFamily(model) };
  }

  firstByte(): void {
    this.#span?.firstByte();
    if (this.#observation.firstByteSeconds !== undefined) return;
    this.#observation = { ...this.#observation, firstByteSeconds: this.#seconds() };
  }

  used(answered: AnswerUsage, usage: Usage): void {
    this.#span?.used(answered, usage);
    this.#observation = { ...this.#observation, ...usage };
  }

  failed(error: string): void {
    this.#span?.failed(error);
    this.#error ??= error;
  }

  /** The first end counts. A request that is only repeated with other credentials is not counted. */
  end(error?: string, isCounted = true): void {
    this.#span?.end(error);
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    if (!isCounted) return;
    const outcome = outcomeOf(this.#error ?? error);
    this.#observed.add({ ...this.#observation, outcome, seconds: this.#seconds() });
  }

  #seconds(): number {
    return (performance.now() - this.#startedMs) / 1_000;
  }
}
