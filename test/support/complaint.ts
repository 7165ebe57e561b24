import { type ErrorEnvelope, type RouteName, statusCodes } from '@muster/sdk/contract';
import { envelopeMisfit, replyMisfit } from './schemas.ts';

export interface Outcome {
  readonly status: number;
  readonly text: string;
  readonly contentType: string;
}

/** What is wrong with the reply, or undefined. */
export function complaint(
  request: { readonly route: RouteName; readonly wrong: string | undefined },
  { status, text, contentType }: Outcome,
): string | undefined {
  if (status >= 500 && status !== 501) return `${status}: ${text}`;
  if (status >= 200 && status < 300) {
    if (request.wrong !== undefined) return `accepted (${status}) though ${request.wrong}`;
    if (contentType.startsWith('text/event-stream')) return undefined;
    const wrong = replyMisfit(request.route, JSON.parse(text));
    return wrong && `the reply does not fit: ${wrong}: ${text.slice(0, 500)}`;
  }
  const envelope = JSON.parse(text) as ErrorEnvelope;
  const wrong = envelopeMisfit(envelope);
  if (wrong) return `no envelope: ${wrong}: ${text.slice(0, 500)}`;
  const known = Object.values(statusCodes).some((row) => row.code === envelope.code && row.http === status);
  return known ? undefined : `code ${envelope.code} with HTTP ${status}`;
}
