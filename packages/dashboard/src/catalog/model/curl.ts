import type { TriggerAuth, TriggerDocument } from '@muster/sdk/contract';

/** The example in a request. */
const body = `body='{"title": "A test"}'`;

/** In single quotes of a shell. */
const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Commands for a shell that send a request to a trigger. They need curl, and to sign it openssl. */
export function requestCommands(
  url: string,
  { auth, signatureHeader }: Pick<TriggerDocument, 'auth' | 'signatureHeader'>,
  secret: string,
): string {
  const send = (...headers: readonly string[]): string =>
    [
      `curl -sS ${quote(url)} -d "$body" -H 'content-type: application/json'`,
      ...headers.map((header) => `-H "${header}"`),
    ].join(' \\\n  ');
  const hmac = (key: string): string => `openssl dgst -sha256 -mac HMAC -macopt "hexkey:${key}"`;
  const hex = "od -An -v -tx1 | tr -d ' \\n'";
  const lines: Readonly<Record<TriggerAuth, readonly string[]>> = {
    'standard-webhooks': [
      'id=msg_$(date +%s)',
      'at=$(date +%s)',
      `key=$(printf %s "\${secret#whsec_}" | openssl base64 -d -A | ${hex})`,
      `signature=$(printf %s "$id.$at.$body" | ${hmac('$key')} -binary | openssl base64 -A)`,
      send('webhook-id: $id', 'webhook-timestamp: $at', 'webhook-signature: v1,$signature'),
    ],
    'hmac-sha256': [
      `key=$(printf %s "$secret" | ${hex})`,
      `signature=$(printf %s "$body" | ${hmac('$key')} -binary | ${hex})`,
      send(`${signatureHeader || 'x-hub-signature-256'}: sha256=$signature`),
    ],
    bearer: [send(signatureHeader ? `${signatureHeader}: $secret` : 'authorization: Bearer $secret')],
  };
  return [`secret=${quote(secret)}`, body, ...lines[auth ?? 'standard-webhooks']].join('\n');
}
