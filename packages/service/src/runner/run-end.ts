import { errorLength, type FaultCode, limits } from '@muster/sdk/contract';
import type { TurnResult } from '../harness/harness.ts';
import { isDeeperThan } from '../lib/json.ts';
import { textBytes } from './report-queue.ts';
import type { RunEnd } from './report-stream.ts';
import { bounded, jsonBytes, storableValue } from './wire-text.ts';

const outputBytes = 256 * 1024;

/** A run that can't go on, with the code and the words that its agent's error will have. */
export class RunFailure extends Error {
  override readonly name = 'RunFailure';
  readonly code: FaultCode;

  constructor(code: FaultCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** Why an output can't be reported, or null. */
export function outputLimitProblem(output: unknown): string | null {
  // First, because JSON.stringify calls itself for each level.
  if (isDeeperThan(output, limits.documentDepth))
    return `The structured output is nested deeper than ${limits.documentDepth} levels.`;
  return jsonBytes(output) > outputBytes
    ? `The structured output is larger than ${outputBytes} bytes.`
    : null;
}

/** How a turn that came to rest by itself is reported. */
export function endOf(result: TurnResult, textLength: number): RunEnd {
  const text = (value: string) => bounded(value, textLength, textBytes);
  switch (result.type) {
    case 'done': {
      const problem = outputLimitProblem(result.structuredOutput);
      if (problem) return failedEnd('STRUCTURED_OUTPUT_TOO_LARGE', problem);
      return {
        outcome: 'COMPLETED',
        response: text(result.response),
        ...(result.structuredOutput !== undefined && {
          structuredOutput: storableValue(result.structuredOutput),
        }),
        ...(result.question !== undefined && {
          question: bounded(result.question, textLength, textBytes / 2),
        }),
        ...(result.finished && { finished: true }),
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

export function failedEnd(code: FaultCode, message: string): RunEnd {
  return { outcome: 'FAILED', error: { code, message: bounded(message, errorLength) } };
}

/** The provider parked, failed or refused the run: its session holds the batch, and can go on with it. */
export const isCutByProvider = ({ outcome, error }: RunEnd): boolean =>
  outcome === 'PARKED' || error?.code.startsWith('PROVIDER_') === true;
