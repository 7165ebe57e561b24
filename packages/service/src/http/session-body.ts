import { limits } from '@muster/sdk/contract';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { FairShare } from '../control/fair-share.ts';
import { Base64Decoder } from '../lib/base64.ts';
import { bodyTooLarge, EdgeError, invalidField } from './errors.ts';
import { parseBody, refuseOtherMediaType } from './json-body.ts';

/** Of the bodies that are read or saved at a time; tenants share them. */
const mostBytes = 512 * 1024 * 1024;

/**
 * Bodies with a session are read as they come: to decode one as a whole would hold up the node for half a second. The
 * archive leaves the JSON before that is parsed; the request has its bytes.
 */
export function readSessions(app: FastifyInstance): void {
  const share = new FairShare(mostBytes);
  app.decorateRequest('archive');
  app.addHook('preParsing', async (request, reply) => {
    const bytes = bytesOf(request);
    const tenant = request.caller.tenant.id;
    if (!share.take(tenant, bytes)) {
      const message = 'too many sessions of this tenant are being saved; try again';
      throw new EdgeError('RESOURCE_EXHAUSTED', message, [], { connection: 'close' });
    }
    reply.raw.once('close', () => share.release(tenant, bytes));
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: AsyncIterable<Buffer>) => {
    refuseOtherMediaType(request);
    const most = request.routeOptions.bodyLimit;
    const body = new SessionBody(Math.min(limits.sessionBytes, Math.ceil((bytesOf(request) * 3) / 4)));
    let received = 0;
    try {
      for await (const chunk of payload) {
        received += chunk.length;
        if (received > most) throw bodyTooLarge(most);
        body.write(chunk);
      }
    } catch (error) {
      throw error instanceof EdgeError ? error : new EdgeError('CANCELLED', 'the client went away');
    }
    const { json, archive } = body.end();
    request.archive = archive;
    return json;
  });
}

/** The announced length of the body, or the most it may have. */
function bytesOf({ headers, routeOptions }: FastifyRequest): number {
  const most = routeOptions.bodyLimit;
  const announced = headers['content-length'] === undefined ? most : Number(headers['content-length']);
  if (announced > most) throw bodyTooLarge(most);
  return announced;
}

const codes = {
  quote: 0x22,
  backslash: 0x5c,
  colon: 0x3a,
  comma: 0x2c,
  openBrace: 0x7b,
  openBracket: 0x5b,
  closeBrace: 0x7d,
  closeBracket: 0x5d,
};

/** JSON from which the text of the field `archive` is taken out and decoded. */
class SessionBody {
  readonly #archive: Base64Decoder;
  #json = '';
  #where: 'outside' | 'text' | 'archive' = 'outside';
  #depth = 0;
  #isEscaped = false;
  /** The text that was read last, or its beginning. */
  #text = '';
  #field = '';

  constructor(mostArchiveBytes: number) {
    this.#archive = new Base64Decoder(mostArchiveBytes);
  }

  write(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length)
      at = this.#where === 'archive' ? this.#readArchive(chunk, at) : this.#readJson(chunk, at);
  }

  end(): { json: Record<string, unknown>; archive: ReturnType<Base64Decoder['end']> } {
    const json = parseBody(Buffer.from(this.#json, 'latin1'));
    // A name that is written with escapes is the same name, but was not found.
    const isFound = typeof json.archive !== 'string' || json.archive === '';
    return { json, archive: isFound ? this.#archive.end() : 'invalid' };
  }

  #readArchive(chunk: Buffer, from: number): number {
    const quote = chunk.indexOf(codes.quote, from);
    const end = quote < 0 ? chunk.length : quote;
    this.#archive.write(chunk.toString('latin1', from, end));
    // The closing quote is read with the JSON.
    if (quote >= 0) this.#where = 'text';
    return end;
  }

  /** Reads on, up to the beginning of the archive. */
  #readJson(chunk: Buffer, from: number): number {
    let at = from;
    while (at < chunk.length && this.#where !== 'archive') this.#step(chunk[at++] as number);
    this.#json += chunk.toString('latin1', from, at);
    if (this.#json.length > limits.bodyBytes)
      throw invalidField('', `the body beside \`archive\` must be at most ${limits.bodyBytes} bytes`);
    return at;
  }

  #step(byte: number): void {
    if (this.#where === 'text') {
      if (!this.#isEscaped && byte === codes.quote) this.#where = 'outside';
      else if (this.#text.length < 16) this.#text += String.fromCharCode(byte);
      this.#isEscaped = !this.#isEscaped && byte === codes.backslash;
      return;
    }
    switch (byte) {
      case codes.quote:
        this.#where = this.#depth === 1 && this.#field === 'archive' ? 'archive' : 'text';
        this.#text = '';
        break;
      case codes.colon:
        this.#field = this.#text;
        break;
      case codes.comma:
        this.#field = '';
        break;
      case codes.openBrace:
      case codes.openBracket:
        this.#depth += 1;
        break;
      case codes.closeBrace:
      case codes.closeBracket:
        this.#depth -= 1;
        break;
    }
  }
}
