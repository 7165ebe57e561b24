import type { FaultCode } from '@muster/sdk/contract';

/** How harnesses word what a provider refused for a reason that has a code of its own. */
const wordings: readonly (readonly [FaultCode, RegExp])[] = [
  [
    'CONTEXT_OVERFLOW',
    /prompt is too long|input is too long|context.?window.?exceeded|context_length_exceeded|exceeds the context window/i,
  ],
  ['OUTPUT_LIMIT', /output token maximum|max_output_tokens|reason: max_tokens/i],
  ['REFUSAL', /usage policy|content_filter|\brefusal\b|cyberPolicy/i],
  ['MODEL_UNKNOWN', /issue with the selected model|model_?not_?found|model .{0,200}does not exist/i],
];

/** The code of an error that a harness reports of its provider; `signs` are words and sentences about it. */
export function providerFault(...signs: readonly (string | null | undefined)[]): FaultCode {
  const said = signs.filter(Boolean).join('\n');
  return wordings.find(([, words]) => words.test(said))?.[0] ?? 'PROVIDER_ERROR';
}
