import { hash } from 'node:crypto';
import { extname } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** What each kind of file is to a browser, and whether it is words, which can be packed. */
const kinds: Readonly<Record<string, { readonly type: string; readonly isText?: true }>> = {
  '.html': { type: 'text/html; charset=utf-8', isText: true },
  '.css': { type: 'text/css; charset=utf-8', isText: true },
  '.js': { type: 'text/javascript; charset=utf-8', isText: true },
  '.json': { type: 'application/json; charset=utf-8', isText: true },
  '.map': { type: 'application/json; charset=utf-8', isText: true },
  '.txt': { type: 'text/plain; charset=utf-8', isText: true },
  '.svg': { type: 'image/svg+xml', isText: true },
  '.png': { type: 'image/png' },
  '.ico': { type: 'image/x-icon' },
  '.woff2': { type: 'font/woff2' },
};

/**
 * A page loads what this server serves, and nothing else: no script or style of its own text, no frame, no form. No
 * page of another site holds a window of it, and it has no use for what a browser could tell of its user.
 */
export const pageHeaders = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "font-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ].join('; '),
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': [
    ...['accelerometer', 'autoplay', 'camera', 'clipboard-read', 'display-capture', 'encrypted-media'],
    ...['geolocation', 'gyroscope', 'hid', 'magnetometer', 'microphone', 'midi', 'payment'],
    ...['publickey-credentials-get', 'serial', 'usb', 'xr-spatial-tracking'],
  ]
    .map((feature) => `${feature}=()`)
    .join(', '),
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const;

export const cacheControls = {
  /** Asked for each time; the answer is mostly that nothing changed. */
  checked: 'no-cache',
  /** For a file whose name tells its content. */
  forever: 'public, max-age=31536000, immutable',
} as const;

type Encoding = 'br' | 'gzip';
const packers: Readonly<Record<Encoding, (content: Buffer) => Promise<Buffer>>> = {
  br: (content) =>
    promisify(brotliCompress)(content, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: 9,
        [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
      },
    }),
  gzip: (content) => promisify(gzip)(content, { level: 9 }),
};

/** A file for browsers, kept in memory; packed when it is first asked for so, and kept packed. */
export class StaticFile {
  readonly #content: Buffer;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #isText: boolean;
  readonly #etag: string;
  readonly #packed = new Map<Encoding, Promise<Buffer>>();

  constructor(name: string, content: Buffer, cacheControl: string) {
    const { type, isText = false } = kinds[extname(name)] ?? { type: 'application/octet-stream' };
    this.#content = content;
    this.#isText = isText;
    // Weak: one tag for every encoding of the same content.
    this.#etag = `W/"${hash('sha256', content, 'base64url').slice(0, 22)}"`;
    this.#headers = {
      ...pageHeaders,
      'content-type': type,
      'cache-control': cacheControl,
      etag: this.#etag,
      ...(isText && { vary: 'accept-encoding' }),
    };
  }

  readonly answer = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    reply.headers(this.#headers);
    if (tagsIn(request.headers['if-none-match']).includes(this.#etag)) return reply.code(304).send();
    const encoding = this.#isText ? encodingFor(request.headers['accept-encoding']) : undefined;
    if (!encoding) return reply.send(this.#content);
    return reply.header('content-encoding', encoding).send(await this.#pack(encoding));
  };

  #pack(encoding: Encoding): Promise<Buffer> {
    const known = this.#packed.get(encoding);
    if (known) return known;
    const packed = packers[encoding](this.#content);
    this.#packed.set(encoding, packed);
    return packed;
  }
}

const tagsIn = (header = ''): string[] => header.split(',').map((tag) => tag.trim());

/** The smaller of those that the browser takes; `q=0` says that it does not. */
export function encodingFor(header: string | string[] | undefined): Encoding | undefined {
  const taken = String(header ?? '')
    .toLowerCase()
    .split(',')
    .filter((one) => !/;\s*q=0(\.0*)?\s*$/.test(one))
    .map((one) => one.split(';')[0]?.trim());
  return (['br', 'gzip'] as const).find((encoding) => taken.includes(encoding));
}
