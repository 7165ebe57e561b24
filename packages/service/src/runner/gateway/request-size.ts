import { isObject } from '../../lib/json.ts';
import type { ProtocolName } from '../accounts/account.ts';

/** What decides how much a request can cost. */
export interface RequestSize {
  /** At most. */
  readonly inputTokens: number;
  /** Undefined when the request names no valid limit. */
  readonly outputLimit: number | undefined;
  readonly serviceTier: string | undefined;
  /** A faster, dearer mode of the model. */
  readonly speed: string | undefined;
}

type Fields = Readonly<Record<string, unknown>>;

/** A token of text or code has about four bytes. */
const fewestBytesPerToken = 3;
/** Of the largest image: a model gets it scaled down, and is charged by its pixels, not by its bytes. */
const mostImageTokens: Readonly<Record<ProtocolName, number>> = {
  anthropic: 5_000,
  bedrock: 5_000,
  vertex: 5_000,
  openai: 10_000,
};
/** What a provider adds to a request, such as its own instructions for tools. */
const addedTokens = 500;

/** `bytes`: the length of the serialized body. */
export function sizeOf(provider: ProtocolName, body: Fields, bytes: number): RequestSize {
  const images = [body.messages, body.system, body.input].flatMap((content) => [...imagesIn(content)]);
  const textBytes = images.reduce((left, data) => left - data.length, bytes);
  return {
    inputTokens:
      Math.ceil(textBytes / fewestBytesPerToken) + images.length * mostImageTokens[provider] + addedTokens,
    outputLimit: outputLimitOf(body),
    serviceTier: textOf(body.service_tier),
    speed: textOf(body.speed),
  };
}

/** What a partly answered request has as input, more likely than at most. */
export const likelyInputTokens = ({ inputTokens }: RequestSize): number =>
  Math.round((inputTokens * fewestBytesPerToken) / 4);

/** The data of the images where a model sees them as such: what it called a tool with is text to it. */
function* imagesIn(content: unknown): Generator<string> {
  if (Array.isArray(content)) for (const item of content) yield* imagesIn(item);
  if (!isObject(content)) return;
  const { type, source, image_url } = content;
  const data = type === 'image' && isObject(source) ? source.data : type === 'input_image' && image_url;
  if (typeof data === 'string') yield data;
  else for (const part of [content.content, content.output, source]) yield* imagesIn(part);
}

/** Of the model, or of one that takes over from it. */
function outputLimitOf(body: Fields): number | undefined {
  const others = Array.isArray(body.fallbacks) ? body.fallbacks.filter(isObject) : [];
  const limits = [body, ...others]
    .flatMap(({ max_tokens, max_output_tokens }) => [max_tokens, max_output_tokens])
    .filter((limit) => typeof limit === 'number')
    .filter((limit) => limit > 0 && Number.isFinite(limit));
  return limits.length > 0 ? Math.max(...limits) : undefined;
}

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);
