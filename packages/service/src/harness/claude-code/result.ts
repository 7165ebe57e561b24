import type { SDKResultMessage } from '@anthropic-ai/claude-agent-sdk';
import type { FaultCode } from '@muster/sdk/contract';
import type { TurnResult } from '../harness.ts';
import { providerFault } from '../provider-fault.ts';
import type { Output } from './output-format.ts';

/** How a turn that nobody cut came to rest. An error of the provider comes as a success that says it is an error. */
export function resultOf(result: SDKResultMessage, lastText: string, output: Output | undefined): TurnResult {
  const failed = (code: FaultCode, message: string): TurnResult => ({
    type: 'failed',
    code,
    message,
    response: lastText,
  });
  if (result.subtype === 'success') {
    if (result.is_error) {
      const code = providerFault(result.result, result.stop_reason && `reason: ${result.stop_reason}`);
      return failed(code, result.result || 'The provider refused without a word.');
    }
    const response = lastText || result.result;
    return { type: 'done', response, structuredOutput: output?.take(result.structured_output) };
  }
  const message = result.errors.join('; ') || result.subtype;
  if (/No conversation found/.test(message)) return failed('SESSION_NOT_OPENED', message);
  if (result.subtype === 'error_max_structured_output_retries')
    return failed('INVALID_STRUCTURED_OUTPUT', message);
  return failed('HARNESS_ERROR', message);
}
