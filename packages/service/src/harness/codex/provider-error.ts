import type { TurnError } from './protocol.ts';

/** What the provider said, out of what Codex made of it: an answer as it came, or a sentence around it. */
export function providerWords(error: TurnError | null): string {
  const message = error?.message ?? '';
  const words = jsonMessage(message) ?? message.replace(/, url: \S+(, request id: \S+)?.*$/s, '');
  return words.trim() || 'The provider refused without a word.';
}

export function retryText(error: TurnError): string {
  const status = statusOf(error);
  const answer = status === undefined ? 'gave no answer' : `answered ${status}`;
  const [, attempt, most] = /(\d+)\/(\d+)/.exec(error.message) ?? [];
  return `The provider ${answer}: trying again${most === undefined ? '' : ` (${attempt} of ${most})`}.`;
}

function statusOf({ codexErrorInfo }: TurnError): number | undefined {
  for (const inner of Object.values(Object(codexErrorInfo))) {
    const status: unknown = Object(inner).httpStatusCode;
    if (typeof status === 'number') return status;
  }
  return undefined;
}

function jsonMessage(text: string): string | undefined {
  try {
    const message: unknown = Object(Object(JSON.parse(text)).error).message;
    return typeof message === 'string' ? message : undefined;
  } catch {
    return undefined;
  }
}
