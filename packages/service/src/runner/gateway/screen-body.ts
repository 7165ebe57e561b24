import type { ProviderName } from '../../harness/harness.ts';
import { isObject } from '../../lib/json.ts';
import { boundsProblem } from './json-bounds.ts';
import { bodyProblem, modelsIn } from './provider-body.ts';

export interface UnscreenedBody {
  readonly provider: ProviderName;
  /** Of the provider's API: `/v1/messages`, `/responses`. */
  readonly path: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export type ScreenedBody =
  | {
      readonly type: 'allowed';
      /** Made from what was checked: the provider can't read it differently than the gateway did. */
      readonly bytes: Uint8Array<ArrayBuffer>;
      readonly models: readonly string[];
      readonly serviceTier: string | undefined;
    }
  | { readonly type: 'refused'; readonly status: 400 | 413; readonly message: string };

/** Anthropic takes 32 MB. */
export const largestBodyBytes = 32 * 1024 * 1024;

/** A harness sends a few thousand values, some ten levels deep. */
const bounds = { depth: 128, values: 1_000_000 };

/** Checks a request to a provider and writes it again. Takes up to a second for the largest: not for a busy thread. */
export function screenBody({ provider, path, bytes }: UnscreenedBody): ScreenedBody {
  const tooMuch = boundsProblem(bytes, bounds);
  if (tooMuch !== undefined) return { type: 'refused', status: 400, message: tooMuch };
  const body = parsed(bytes);
  if (!isObject(body))
    return { type: 'refused', status: 400, message: 'The body is not a JSON object in UTF-8' };
  const message = bodyProblem(provider, path, body);
  if (message !== undefined) return { type: 'refused', status: 400, message };
  const written = new TextEncoder().encode(JSON.stringify(body)) as Uint8Array<ArrayBuffer>;
  if (written.length > largestBodyBytes)
    return { type: 'refused', status: 413, message: `The body is larger than ${largestBodyBytes} bytes` };
  const serviceTier = typeof body.service_tier === 'string' ? body.service_tier : undefined;
  return { type: 'allowed', bytes: written, models: modelsIn(body), serviceTier };
}

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    return undefined;
  }
}
