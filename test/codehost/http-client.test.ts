import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { hostRuleOf } from '../../packages/service/src/lib/host-rules.ts';
import type { HostError } from '../../packages/service/src/work/host-error.ts';
import { HttpClient, type HttpRequest, urlPath } from '../../packages/service/src/work/http-client.ts';
import { Limiter } from '../../packages/service/src/work/limiter.ts';
import { withinBudget } from '../../packages/service/src/work/reply-budget.ts';

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

interface Place {
  readonly server: Server;
  readonly url: string;
  readonly requests: IncomingMessage[];
  answer: Answer;
}

let api: Place;
let other: Place;

beforeEach(async () => {
  api = await listen();
  other = await listen();
});

afterEach(async () => {
  for (const { server } of [api, other]) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

async function listen(): Promise<Place> {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    place.answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const place: Place = { server, url, requests, answer: (_request, response) => void response.end('{}') };
  return place;
}

function client(
  options: { innerHosts?: readonly string[]; baseUrl?: string; timeoutMs?: number } = {},
): HttpClient {
  const { innerHosts = [new URL(api.url).host], baseUrl = `${api.url}/api`, timeoutMs } = options;
  return new HttpClient({
    baseUrl,
    authorize: async () => ({ authorization: 'Bearer the-credential' }),
    limiter: new Limiter(),
    innerHosts: innerHosts.flatMap((text) => hostRuleOf(text) ?? []),
    isLimit: (message) => message.includes('secondary rate limit'),
    ...(timeoutMs !== undefined && { timeoutMs }),
  });
}

const get: HttpRequest = { path: '/thing' };

const failure = (call: Promise<unknown>): Promise<HostError> =>
  call.then(
    () => Promise.reject(new Error('the call did not fail')),
    (error: HostError) => error,
  );

const failed = (request = get, options = {}): Promise<HostError> =>
  failure(client(options).call(request, (body) => body.value));

const reply =
  (status: number, body = '{}', headers: Readonly<Record<string, string>> = {}): Answer =>
  (_request, response) =>
    void response.writeHead(status, headers).end(body);

describe('a call', () => {
  it('sends JSON with the credential and reads the reply', async () => {
    let sent = '';
    api.answer = (request, response) => {
      request.on('data', (chunk: Buffer) => {
        sent += chunk.toString();
      });
      request.on('end', () => response.writeHead(201).end('{"id": 7}'));
    };
    const request = {
      method: 'POST',
      path: urlPath`/things/${'a b/c'}`,
      query: { page: 2, none: undefined },
      body: { é: 1 },
    } as const;
    expect(await client().call(request, (body) => body.number('id'))).toBe(7);
    expect(api.requests[0]).toMatchObject({ method: 'POST', url: '/api/things/a%20b%2Fc?page=2' });
    expect(api.requests[0]?.headers).toMatchObject({
      authorization: 'Bearer the-credential',
      'content-length': '8',
    });
    expect(sent).toBe('{"é":1}');
  });

  it('reads a reply without a body', async () => {
    api.answer = reply(204, '');
    expect(await client().call({ method: 'DELETE', path: '/thing' }, (body) => body.value)).toBe(null);
  });

  it.each([401, 403, 404, 410, 422])('that is answered with %i is refused', async (status) => {
    api.answer = reply(status, '{"message": "No.", "errors": [{"message": "Really."}]}');
    expect(await failed()).toMatchObject({
      kind: 'refused',
      status,
      message: `GET /thing: ${status} No.; Really.`,
    });
  });

  it.each([500, 502, 503, 504])('that is answered with %i has an unknown outcome', async (status) => {
    api.answer = reply(status, '<html>not JSON</html>');
    expect(await failed()).toMatchObject({ kind: 'unknown', status });
  });

  it('that is limited says how long to wait', async () => {
    const inTenMinutes = Date.now() + 600_000;
    for (const [status, headers, message] of [
      [429, { 'retry-after': '600' }, ''],
      [429, { 'retry-after': new Date(inTenMinutes).toUTCString() }, ''],
      [403, { 'retry-after': '600' }, 'You have exceeded a secondary rate limit'],
      [
        403,
        { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(Math.ceil(inTenMinutes / 1000)) },
        '',
      ],
      [429, { 'ratelimit-reset': String(Math.ceil(inTenMinutes / 1000)) }, ''],
    ] as const) {
      api.answer = reply(status, JSON.stringify({ message }), headers);
      const error = await failed();
      expect(error).toMatchObject({ kind: 'limited', status });
      expect(error.retryAfterMs).toBeGreaterThan(500_000);
      expect(error.retryAfterMs).toBeLessThanOrEqual(601_000);
    }
  });

  it('that is limited without a time waits a minute', async () => {
    for (const [status, message] of [
      [429, ''],
      [403, 'You have exceeded a secondary rate limit.'],
    ] as const) {
      api.answer = reply(status, JSON.stringify({ message }));
      expect(await failed()).toMatchObject({ kind: 'limited', status, retryAfterMs: 60_000 });
    }
  });

  it('is not repeated while the host asked to wait', async () => {
    api.answer = reply(429, '{}', { 'retry-after': '3600' });
    const calling = client();
    await failure(calling.call(get, () => null));
    expect(await failure(calling.call(get, () => null))).toMatchObject({ kind: 'limited', status: 0 });
    expect(api.requests).toHaveLength(1);
  });

  it('without a complete reply has an unknown outcome', async () => {
    api.answer = () => {};
    expect(await failed(get, { timeoutMs: 50 })).toMatchObject({
      kind: 'unknown',
      status: 0,
      message: expect.stringContaining('no complete reply'),
    });
    api.answer = (_request, response) =>
      void response.writeHead(200, { 'content-length': '100' }).write('{"id":');
    expect(await failed(get, { timeoutMs: 50 })).toMatchObject({ kind: 'unknown' });
    api.answer = (request) => request.socket.destroy();
    expect(await failed()).toMatchObject({ kind: 'unknown', status: 0 });
    api.answer = (_request, response) => {
      response.writeHead(200, { 'content-length': '100' });
      response.write('{"id":', () => response.destroy());
    };
    expect(await failed()).toMatchObject({ kind: 'unknown', status: 200 });
  });

  it('to a host that does not listen has an unknown outcome', async () => {
    const innerHosts = ['127.0.0.1:1'];
    expect(await failed(get, { innerHosts, baseUrl: 'http://127.0.0.1:1' })).toMatchObject({
      ...{ kind: 'unknown', status: 0, message: expect.stringContaining('ECONNREFUSED') },
    });
  });

  it('stops reading a reply that is too large', async () => {
    const chunk = Buffer.alloc(1024 * 1024, ' ');
    api.answer = (_request, response) => {
      response.writeHead(200);
      const more = (): void => {
        while (!response.destroyed && response.write(chunk));
      };
      response.on('drain', more);
      more();
    };
    expect(await failed()).toMatchObject({
      kind: 'unknown',
      message: expect.stringContaining('more than 16777216 bytes'),
    });
  });

  it('refuses a reply that is not what the host documents', async () => {
    for (const body of ['not JSON', '"text"', '{"id": "7"}', '['.repeat(100_000)]) {
      api.answer = reply(200, body);
      const error = await failure(client().call(get, (found) => found.number('id')));
      expect(error).toMatchObject({
        kind: 'unknown',
        status: 200,
        message: expect.stringContaining('unexpected reply'),
      });
    }
  });

  it('does not follow a redirect out of the API', async () => {
    for (const status of [301, 302, 307, 308])
      for (const location of [
        `${other.url}/api/thing`,
        '/elsewhere',
        `http://me@${new URL(api.url).host}/api/x`,
      ]) {
        api.answer = reply(status, '', { location });
        expect(await failed()).toMatchObject({ kind: 'refused', status });
      }
    expect(other.requests).toHaveLength(0);
    expect(api.requests.every(({ url }) => url === '/api/thing')).toBe(true);
  });

  it('follows a redirect within the API, with its credential, and a write only if its method stays', async () => {
    const moved =
      (status: number): Answer =>
      (request, response) => {
        if (request.url?.startsWith('/api/thing')) {
          response.writeHead(status, { location: '/api/repositories/1' }).end();
        } else response.end('{"id":1}');
      };
    const id = (request: HttpRequest) => client().call(request, (body) => body.number('id'));
    for (const status of [301, 302, 307, 308]) {
      api.answer = moved(status);
      expect(await id({ ...get, query: { page: 2 } })).toBe(1);
      const { url, headers } = api.requests.at(-1) as IncomingMessage;
      expect([url, headers.authorization]).toEqual(['/api/repositories/1?page=2', 'Bearer the-credential']);
      const write = { ...get, method: 'POST', body: {} } as const;
      if (status >= 307) expect(await id(write)).toBe(1);
      else expect(await failed(write)).toMatchObject({ kind: 'refused', status });
    }
    api.answer = reply(301, '', { location: '/api/thing' });
    expect(await failed()).toMatchObject({ kind: 'refused', status: 301 });
  });

  it('can not leave its place in a path', () => {
    for (const value of ['..', '.', '']) expect(() => urlPath`/repos/${value}/x`).toThrow(/part of the path/);
    expect(urlPath`/repos/${'../x?y#z'}/${7}`).toBe('/repos/..%2Fx%3Fy%23z/7');
  });
});

describe('an address of an internal network', () => {
  it.each([
    ['http://127.0.0.1:{port}'],
    ['http://localhost:{port}'],
    ['http://[::1]:{port}'],
    ['http://2130706433:{port}'],
    ['http://169.254.169.254'],
  ])('%s is refused', async (address) => {
    const baseUrl = address.replace('{port}', new URL(api.url).port);
    expect(await failed(get, { baseUrl, innerHosts: [] })).toMatchObject({
      ...{ kind: 'refused', status: 0, message: expect.stringContaining('MUSTER_ALLOW_INNER_HOSTS') },
    });
    expect(api.requests).toHaveLength(0);
  });

  it('is allowed by its name or address, with its port', async () => {
    const { port } = new URL(api.url);
    const baseUrl = `http://localhost:${port}`;
    const call = (innerHosts: readonly string[]) =>
      client({ baseUrl, innerHosts }).call(get, (body) => body.value);
    expect(await call([`localhost:${port}`])).toEqual({});
    expect(await call([`127.0.0.1:${port}`])).toEqual({});
    expect(await failure(call(['localhost', 'localhost:1', `127.0.0.2:${port}`]))).toMatchObject({
      kind: 'refused',
    });
  });
});

describe('a list', () => {
  it('is read page by page, up to a limit', async () => {
    api.answer = (request, response) => {
      const page = Number(new URL(request.url ?? '', api.url).searchParams.get('page') ?? 1);
      const link =
        page < 3 ? { link: `<${api.url}/api/thing?page=${page + 1}>; rel="next", <x>; rel="last"` } : {};
      response.writeHead(200, link).end(JSON.stringify([{ id: page * 2 }, { id: page * 2 + 1 }]));
    };
    const ids = (most: number) => client().list(get, (item) => item.number('id'), most);
    expect(await ids(100)).toEqual([2, 3, 4, 5, 6, 7]);
    expect(await ids(3)).toEqual([2, 3, 4]);
    expect(api.requests[0]?.url).toBe('/api/thing?per_page=100');
  });

  it('takes only the query of a link to the next page, whatever host the link names', async () => {
    api.answer = (request, response) => {
      const isFirst = !request.url?.includes('page=2');
      const link = isFirst ? { link: `<${other.url}/elsewhere?page=2>; rel="next"` } : {};
      response.writeHead(200, link).end('[{}]');
    };
    expect(await client().list(get, () => 1, 10)).toEqual([1, 1]);
    expect(api.requests.map(({ url }) => url)).toEqual(['/api/thing?per_page=100', '/api/thing?page=2']);
    expect(other.requests).toHaveLength(0);
  });

  it('ends with a page that is empty or has an invalid link', async () => {
    api.answer = reply(200, '[]', { link: `<${api.url}/api/thing?page=2>; rel="next"` });
    expect(await client().list(get, () => 1, 10)).toEqual([]);
    api.answer = reply(200, '[{}]', { link: '<http://[>; rel="next"' });
    expect(await failure(client().list(get, () => 1, 10))).toMatchObject({ kind: 'unknown' });
  });
});

describe('the end of a text', () => {
  const both = () => ({ innerHosts: [new URL(api.url).host, new URL(other.url).host] });

  it('is read at the address of a redirect, without the credential', async () => {
    api.answer = reply(302, '', { location: `${other.url}/log?sig=1` });
    other.answer = reply(200, `${'beginning '.repeat(100_000)}the end`);
    expect(await client(both()).endOfText(get, 7)).toBe('the end');
    expect(api.requests[0]?.headers.authorization).toBe('Bearer the-credential');
    expect(other.requests.map(({ url, headers }) => [url, headers.authorization])).toEqual([
      ['/log?sig=1', undefined],
    ]);
  });

  it('is read directly, and begins with a whole character', async () => {
    api.answer = reply(200, 'aé');
    expect(await client().endOfText(get, 1)).toBe('');
    expect(await client().endOfText(get, 2)).toBe('é');
    expect(await client().endOfText(get, 10)).toBe('aé');
  });

  it('is not read from an internal network, after a second redirect, or from no address', async () => {
    api.answer = reply(302, '', { location: `${other.url}/log` });
    expect(await failure(client().endOfText(get, 7))).toMatchObject({ kind: 'refused', status: 0 });
    expect(other.requests).toHaveLength(0);
    other.answer = reply(302, '', { location: `${api.url}/again` });
    expect(await failure(client(both()).endOfText(get, 7))).toMatchObject({ kind: 'refused', status: 302 });
    api.answer = reply(302, '', { location: 'file:///etc/passwd' });
    expect(await failure(client(both()).endOfText(get, 7))).toMatchObject({ kind: 'refused', status: 302 });
    api.answer = reply(302);
    expect(await failure(client(both()).endOfText(get, 7))).toMatchObject({ kind: 'refused' });
  });
});

describe('all calls of one piece of work', () => {
  it('end when the host has sent too much in all, however many lists it is in', async () => {
    const page = JSON.stringify(Array.from({ length: 20_000 }, (_, i) => ({ i })));
    api.answer = reply(200, page);
    const lists = (count: number) =>
      withinBudget(async () => {
        const places = Array.from({ length: count }, (_, i) => ({ path: `/list/${i}` }));
        return Promise.all(places.map((place) => client().list(place, (item) => item.number('i'), 100)));
      });
    expect((await lists(10)).map(({ length }) => length)).toEqual(Array(10).fill(100));
    expect(await failure(lists(15))).toMatchObject({
      kind: 'refused',
      message: expect.stringContaining('more than 500000 values in all'),
    });
  });

  it('end when the host has sent too many pages', async () => {
    api.answer = reply(200, '[{}]', { link: `<${api.url}/api/thing?page=2>; rel="next"` });
    const endless = withinBudget(() => client().list(get, () => 1, 5_000));
    expect(await failure(endless)).toMatchObject({
      kind: 'refused',
      message: expect.stringContaining('more than 2000 replies in all'),
    });
  });
});
