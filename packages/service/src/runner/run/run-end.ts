import { errorLength, type FaultCode, limits } from '@muster/sdk/contract';
import type { TurnResult } from '../../harness/harness.ts';
import { isDeeperThan } from '../../lib/json.ts';
import type { ValueMask } from '../../lib/value-mask.ts';
import { bounded, jsonBytes, storableValue } from '../report-text.ts';
import { textBytes } from './report-queue.ts';
import type { RunEnd } from './report-stream.ts';

const maxOutputBytes = 256 * 1024;

/** A run that can't continue, with the code and message of its agent's error. */
export class RunFailure extends Error {
  override readonly name = 'RunFailure';
  readonly code: FaultCode;
  /** The git host that could not be reached, as in `reached` of a report. */
  readonly awaits: string | undefined;

  constructor(code: FaultCode, message: string, awaits?: string) {
    super(message);
    this.code = code;
    this.awaits = awaits;
  }
}

/** Why an output can't be reported, or null. */
export function outputLimitProblem(output: unknown): string | null {
  // First, because JSON.stringify is recursive.
  if (isDeeperThan(output, limits.documentDepth))
    return `The structured output is nested deeper than ${limits.documentDepth} levels.`;
  return jsonBytes(output) > maxOutputBytes
    ? `The structured output is larger than ${maxOutputBytes} bytes.`
    : null;
}

/** How the result of a turn is reported. */
export function endOf(unmasked: TurnResult, textLength: number, mask: ValueMask): RunEnd {
  const text = (value: string) => bounded(value, textLength, textBytes);
  const result = unmasked.type === 'parked' ? unmasked : mask.value(unmasked);
  switch (result.type) {
    case 'done': {
      const { response, structuredOutput, question, finished } = result;
      const problem = outputLimitProblem(structuredOutput);
      if (problem) return failedEnd('STRUCTURED_OUTPUT_TOO_LARGE', problem);
      return {
        outcome: 'COMPLETED',
        response: text(response),
        ...(structuredOutput !== undefined && { structuredOutput: storableValue(structuredOutput) }),
        ...(question !== undefined && { question: bounded(question, textLength, textBytes / 2) }),
        ...(finished && { finished: true }),
      };
    }
    case 'interrupted':
      return { outcome: 'INTERRUPTED', response: text(result.response) };
    case 'parked':
      return { outcome: 'PARKED', limitUntil: result.until.toISOString() };
    case 'failed':
      return {
        ...failedEnd(result.code, result.message),
        ...(result.response !== undefined && { response: text(result.response) }),
      };
  }
}

export function failedEnd(code: FaultCode, message: string, awaits?: string): RunEnd {
  const error = { code, message: bounded(message, errorLength) };
  return { outcome: 'FAILED', error, ...(awaits !== undefined && { awaits }) };
}

/** The provider or the gateway limited, failed or refused the run: its session contains the messages and can continue. */
export const isInterruptedByProvider = ({ outcome, error }: RunEnd): boolean =>
  outcome === 'PARKED' || /^(PROVIDER_|GATEWAY_REFUSED$)/.test(error?.code ?? '');
