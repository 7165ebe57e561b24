import { createHash, createHmac } from 'node:crypto';
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { anthropicProtocol } from './anthropic.ts';
import { openaiProtocol } from './openai.ts';
import { type SeenRequest, type StubProtocol, sendFrames } from './script.ts';

/** Where other accounts send the same requests: the clouds, and the backend of ChatGPT. */
export interface Place {
  readonly protocol: StubProtocol;
  /** The model, where the path names it. */
  readonly model?: string;
  /** Prepares the response for the format of the place. */
  readonly prepare?: (response: ServerResponse) => void;
}

export function placeOf(path: string): Place | undefined {
  const [, bedrockModel] = /^\/model\/([^/]+)\/invoke-with-response-stream$/.exec(path) ?? [];
  if (bedrockModel !== undefined)
    return {
      protocol: anthropicProtocol,
      model: decodeURIComponent(bedrockModel),
      prepare: sendFrames,
    };
  const [, vertexModel] =
    /^\/v1\/projects\/[^/]+\/locations\/[^/]+\/publishers\/anthropic\/models\/([^/]+):streamRawPredict$/.exec(
      path,
    ) ?? [];
  if (vertexModel !== undefined) return { protocol: anthropicProtocol, model: vertexModel };
  if (['/openai/v1/responses', '/openai/responses', '/backend-api/codex/responses'].includes(path))
    return { protocol: openaiProtocol };
  return undefined;
}

/** What a cloud's own name of a model becomes in its answers. */
export const makersName = (model: string): string =>
  model.replace(/^(?:\w+\.)?anthropic\./, '').replace(/-v\d+(:\d+)?$|@\w+$/, '');

/**
 * Why a request is not signed as AWS requires (Signature Version 4); undefined when it is. Written from AWS's
 * specification, not with the library that signs.
 */
export function signatureProblem(
  { headers, path, text }: SeenRequest,
  { secret, region }: { readonly secret: string; readonly region: string },
): string | undefined {
  const authorization = String(headers.authorization);
  const [, date = '', scopeRegion, service, signed = '', signature] =
    /^AWS4-HMAC-SHA256 Credential=\w+\/(\d{8})\/([\w-]+)\/(\w+)\/aws4_request, SignedHeaders=([\w;-]+), Signature=(\w+)$/.exec(
      authorization,
    ) ?? [];
  if (scopeRegion !== region || service !== 'bedrock') return `another scope: ${authorization}`;
  if (!signed.split(';').includes('host')) return `the host is not signed: ${signed}`;
  const canonical = [
    'POST',
    path
      .split('/')
      .map((segment) => encodeURIComponent(segment).replace(/[!'()*]/g, percent))
      .join('/'),
    '',
    ...signed.split(';').map((name) => `${name}:${headerText(headers, name)}`),
    '',
    signed,
    sha256(text),
  ].join('\n');
  const scope = `${date}/${region}/bedrock/aws4_request`;
  const toSign = ['AWS4-HMAC-SHA256', headers['x-amz-date'], scope, sha256(canonical)].join('\n');
  const key = [date, region, 'bedrock', 'aws4_request'].reduce<string | Buffer>(hmac, `AWS4${secret}`);
  return hmac(key, toSign).toString('hex') === signature ? undefined : `a wrong signature: ${canonical}`;
}

const percent = (char: string): string => `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
const headerText = (headers: IncomingHttpHeaders, name: string): string => String(headers[name]).trim();
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest();
