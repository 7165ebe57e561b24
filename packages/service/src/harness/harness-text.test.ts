import { expect, test } from 'vitest';
import { providerFault } from './harness-text.ts';

test.each([
  ['CONTEXT_OVERFLOW', ['Prompt is too long']],
  ['CONTEXT_OVERFLOW', ['', '"contextWindowExceeded"']],
  ['CONTEXT_OVERFLOW', ['Your input exceeds the context window of this model.']],
  ['OUTPUT_LIMIT', ["API Error: Claude's response exceeded the 32000 output token maximum."]],
  ['OUTPUT_LIMIT', ['stream error: Incomplete response returned, reason: max_output_tokens']],
  ['REFUSAL', ['API Error', 'refusal']],
  ['REFUSAL', ['Incomplete response returned, reason: content_filter']],
  ['MODEL_UNKNOWN', ["There's an issue with the selected model (claude-nope). It may not exist."]],
  ['MODEL_UNKNOWN', ['The model `gpt-nope` does not exist or you do not have access to it.']],
  ['MODEL_UNKNOWN', ['', '"modelNotFound"']],
  ['GATEWAY_REFUSED', ["API Error: 403 Muster's gateway: The gateway refused a request", null]],
  ['PROVIDER_ERROR', ['API Error: 400 messages.3: unexpected field', null]],
])('%s is the code of %j', (code, signs) => {
  expect(providerFault(...signs)).toBe(code);
});
