import fc from 'fast-check';

/** Bytes for the endpoint of a run, one latin1 character each. */
export interface GatewayRequest {
  readonly endpoint: number;
  readonly bytes: string;
  /** The number of writes. */
  readonly pieces: number;
  /** Whether the client closes its side after them. */
  readonly ends: boolean;
}

export interface GatewayWorld {
  readonly token: string;
  readonly models: readonly string[];
  readonly allowedPort: number;
}

const pick = <T>(...values: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...values);

/** The first with a much higher weight than the others. */
const mostly = (
  weight: number,
  usual: fc.Arbitrary<string>,
  other: fc.Arbitrary<string>,
): fc.Arbitrary<string> => fc.oneof({ weight, arbitrary: usual }, { weight: 10 - weight, arbitrary: other });

const junk = fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes).toString('latin1'));

const methods = mostly(
  8,
  pick('POST', 'GET'),
  pick('HEAD', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT', 'PATCH', 'PROPFIND', 'NONSENSE', 'get', ''),
);

const targets = ({ allowedPort: port }: GatewayWorld): fc.Arbitrary<string> =>
  mostly(
    7,
    pick(
      '/anthropic/v1/messages',
      '/anthropic/v1/messages?beta=true',
      '/anthropic/v1/messages/count_tokens',
      '/anthropic/v1/models',
      '/anthropic/v1/models?limit=7',
      '/openai/v1/responses',
      '/openai/v1/responses/compact',
      '/openai/v1/models',
      '/mcp',
      '/mcp-servers/team',
      '/git/0/info/refs?service=git-upload-pack',
      '/git/0/git-receive-pack',
      `http://127.0.0.1:${port}/x`,
      `127.0.0.1:${port}`,
    ),
    fc.oneof(
      pick(
        ...[
          '/',
          '',
          '*',
          '//',
          '/%',
          '/?',
          '/#',
          'x',
          '/mcp/',
          '/mcp/../v1',
          '/mcp?a=%00',
          '/mcp-servers/team/../x',
          '/mcp-servers/team?a=%00',
          '/mcp-servers/x',
          '/git',
          '/git/',
          '/git/0',
        ],
        ...['/git/9/info/refs', '/git/0/../../etc/passwd', '/git/0/info/refs', '/git/0/info/refs?service=x'],
        ...['/git/0/git-upload-pack', '/git/00000000000000000000/info/refs', '/git/0/.git/git-receive-pack'],
        ...['//anthropic/v1/messages', '/anthropic//v1/messages', '/anthropic/v1/messages/%2e%2e/files'],
        ...[
          '/anthropic/v1/messages/../files',
          '/anthropic/v1/files',
          '/anthropic/v1/messages/batches',
          '/anthropic',
        ],
        ...[
          '/openai/v1/files',
          '/openai',
          '/openai/v1/responses/resp_1',
          '/anthropic/v1/models/..',
          '/v1/messages',
        ],
        ...[
          'http://169.254.169.254/latest',
          'https://example.com/',
          'http://[::1]/',
          'http://',
          'http://a b/',
        ],
        ...[`http://u:p@127.0.0.1:${port}/`, `http://localhost:${port}/`, 'ftp://x/', 'file:///etc/passwd'],
        ...[
          'example.com:443',
          '[::1]:443',
          '10.0.0.1:80',
          `localhost:${port}`,
          'a:99999',
          ':',
          '[::1',
          'x:y',
        ],
        ...[`http://2130706433:${port}/`, `0x7f000001:${port}`, '\u00ff\u00fe', 'javascript:alert(1)'],
      ),
      fc.nat(40_000).map((length) => `/${'a'.repeat(length)}`),
      junk.map((text) => `/anthropic/v1/${text}`),
    ),
  );

const credentials = ({ token }: GatewayWorld): fc.Arbitrary<string> =>
  mostly(
    8,
    pick(`Authorization: Bearer ${token}`, `x-api-key: ${token}`),
    pick(
      '',
      `Authorization: Basic ${Buffer.from(`muster:${token}`).toString('base64')}`,
      'Authorization: Basic %%%',
      `Authorization: Bearer ${token}x`,
      `Authorization: Bearer ${token}\r\nAuthorization: Bearer other`,
      `Authorization: ${token}`,
      'Authorization:',
      'x-api-key: \u00ff',
      `Proxy-Authorization: Basic ${token}`,
    ),
  );

const headers = fc.array(
  fc.oneof(
    pick(
      ...[
        'Accept: */*',
        'anthropic-version: 2023-06-01',
        'anthropic-beta: files-api-2025-04-14,effort-2025-11-24',
      ],
      ...[
        'OpenAI-Organization: org-1',
        'Content-Type: application/json',
        'Cookie: a=b',
        'Host: other',
        'Referer: x',
      ],
      ...[
        'Connection: content-length',
        'Connection: authorization, x-api-key',
        'Connection: Upgrade\r\nUpgrade: websocket',
      ],
      ...[
        'Connection: transfer-encoding',
        'Proxy-Connection: keep-alive',
        'TE: trailers',
        'Trailer: x',
        'Via: 1.1 x',
      ],
      ...['Expect: 100-continue', 'Expect: nonsense', 'Content-Encoding: gzip', 'Content-Encoding: identity'],
      ...[
        'Content-Encoding: zstd',
        'Git-Protocol: version=2',
        'Git-Protocol: $(id)',
        'Range: bytes=0-',
        'no colon',
      ],
      ...[
        ' folded: x',
        'x:\t y\r\n folded',
        'x : y',
        'x: \u0000',
        ': empty',
        'x: \r y',
        'X-Forwarded-Host: x',
      ],
    ),
    pick(100, 17_000, 70_000).map((length) => `x-long: ${'h'.repeat(length)}`),
    pick(10, 3_000).map((many) => Array.from({ length: many }, (_, i) => `x-${i}: 1`).join('\r\n')),
    junk,
  ),
  { maxLength: 2 },
);

const deep = (open: string, close: string, depth: number): string => open.repeat(depth) + close.repeat(depth);

const bodies = ({ models, token }: GatewayWorld): fc.Arbitrary<string> => {
  const messages = (fields: object) => JSON.stringify({ model: models[0], messages: [], ...fields });
  const responses = (fields: object) =>
    JSON.stringify({ model: models[1], input: [], store: false, ...fields });
  const url = { type: 'url', url: 'http://example.com' };
  return fc.oneof(
    { weight: 4, arbitrary: pick(messages({}), responses({}), messages({ system: 'x'.repeat(100_000) })) },
    {
      weight: 3,
      arbitrary: pick(
        ...[
          messages({ model: 'other' }),
          messages({ model: 7 }),
          messages({ messages: 'x' }),
          messages({ tools: [7] }),
        ],
        ...[
          messages({ messages: [{ content: [{ type: 'image', source: url }] }] }),
          messages({ thread: {} }),
        ],
        ...[responses({ previous_response_id: 'r' }), responses({ input: [{ type: 'item_reference' }] })],
        ...[
          responses({ input: [null] }),
          responses({ tools: [{ type: 'mcp' }] }),
          `{"model":"a",${messages({}).slice(1)}`,
        ],
        ...[
          '',
          '{',
          '[]',
          'null',
          '7',
          '"',
          '\u00ff\u00fe{}',
          '{"__proto__":{}}',
          '{"model":"\\ud800"}',
          '{}\u0000',
        ],
        ...[deep('[', ']', 100_000), deep('{"a":', '}', 20_000), `{"messages":${deep('[', ']', 200)}}`],
        ...[
          '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
          `GET /v1/files HTTP/1.1\r\nx-api-key: ${token}\r\n\r\n`,
        ],
        ...[
          '0000',
          '0009done\n0000',
          'ffff',
          '0001',
          '00000000',
          'zzzz',
          '0004',
          '0032want',
          '000ePACK',
          '0000PACK',
        ],
        `00a1${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/muster/a\u0000 report-status side-band-64k`,
      ),
    },
    { weight: 1, arbitrary: junk },
    { weight: 1, arbitrary: fc.json({ maxDepth: 4 }) },
  );
};

const chunked = (body: string, size: number): string => {
  let text = '';
  for (let at = 0; at < body.length; at += size) {
    const part = body.slice(at, at + size);
    text += `${part.length.toString(16)}\r\n${part}\r\n`;
  }
  return `${text}0\r\n\r\n`;
};

/** The declared framing of the body, and the body as it is sent. */
const framings: readonly ((body: string) => readonly [headers: string, body: string])[] = [
  (body) => ['Transfer-Encoding: chunked', chunked(body, 1_000)],
  (body) => ['Transfer-Encoding: chunked', chunked(body, 7).replace('\r\n', ';ext="x"\r\n')],
  (body) => [
    'Transfer-Encoding: chunked',
    chunked(body, 1_000).replace(/0\r\n\r\n$/, '0\r\nx-trailer: 1\r\n\r\n'),
  ],
  (body) => ['Transfer-Encoding: chunked', chunked(body, 1_000).slice(0, -5)],
  (body) => ['Transfer-Encoding: chunked', `${body.length.toString(16)}\r\n${body}`],
  (body) => ['Transfer-Encoding: chunked', `-1\r\n${body}\r\n0\r\n\r\n`],
  (body) => ['Transfer-Encoding: chunked', `ffffffffffffffff1\r\n${body}\r\n0\r\n\r\n`],
  (body) => ['Transfer-Encoding: chunked', `0x5\r\n${body}\r\n0\r\n\r\n`],
  (body) => [`Transfer-Encoding: chunked\r\nContent-Length: ${body.length}`, body],
  (body) => [`Content-Length: ${body.length}\r\nTransfer-Encoding: chunked`, chunked(body, 1_000)],
  (body) => ['Transfer-Encoding: xchunked', body],
  (body) => ['Transfer-Encoding: chunked, identity', chunked(body, 1_000)],
  (body) => ['Transfer-Encoding: gzip, chunked', chunked(body, 1_000)],
  (body) => ['Transfer-Encoding : chunked', chunked(body, 1_000)],
  (body) => [`Content-Length: ${Math.floor(body.length / 2)}`, body],
  (body) => [`Content-Length: ${40 * 1024 * 1024}`, body],
  (body) => ['Content-Length: 99999999999999999999', body],
  (body) => [`Content-Length: +${body.length}`, body],
  (body) => ['Content-Length: -1', body],
  (body) => ['Content-Length: x', body],
  (body) => [`Content-Length: ${body.length}\r\nContent-Length: ${body.length}`, body],
  (body) => [`Content-Length: ${body.length}\r\nContent-Length: 0`, body],
  (body) => ['', body],
];

const declared = (body: string): readonly [string, string] => [`Content-Length: ${body.length}`, body];
const unfinished = (body: string): readonly [string, string] => [`Content-Length: ${body.length + 10}`, body];

export function gatewayRequest(world: GatewayWorld): fc.Arbitrary<GatewayRequest> {
  return fc
    .record({
      endpoint: fc.nat(2),
      method: methods,
      target: targets(world),
      version: mostly(
        9,
        pick('HTTP/1.1'),
        pick('HTTP/1.0', 'HTTP/2.0', 'HTTP/0.9', 'HTTP/1.', '', 'HTTP/11'),
      ),
      host: mostly(9, pick('Host: x'), pick('', 'Host:', 'Host: a\r\nHost: b')),
      credentials: credentials(world),
      headers: fc.oneof({ weight: 6, arbitrary: fc.constant([]) }, { weight: 4, arbitrary: headers }),
      close: mostly(8, pick('Connection: close'), pick('')),
      frame: fc.oneof(
        { weight: 6, arbitrary: fc.constant(declared) },
        { weight: 1, arbitrary: fc.constant(unfinished) },
        { weight: 2, arbitrary: pick(...framings) },
      ),
      body: bodies(world),
      broken: fc.option(fc.tuple(fc.nat(400), junk), { freq: 3 }),
      behind: mostly(
        9,
        pick(''),
        pick('GET /anthropic/v1/models HTTP/1.1\r\nHost: x\r\n\r\n', '\r\n\r\n', 'junk'),
      ),
      pieces: pick(1, 1, 1, 2, 5),
      ends: fc.boolean(),
    })
    .map(({ endpoint, pieces, ends, broken, behind, ...parts }) => {
      const { method, target, version, host, close } = parts;
      const [framing, body] = parts.frame(Buffer.from(parts.body).toString('latin1'));
      const lines = [host, parts.credentials, framing, ...parts.headers, close].filter((line) => line !== '');
      const bytes = `${method} ${target} ${version}\r\n${lines.join('\r\n')}\r\n\r\n${body}${behind}`;
      if (broken === null) return { endpoint, bytes, pieces, ends };
      const [at, noise] = broken;
      return { endpoint, bytes: bytes.slice(0, at) + noise + bytes.slice(at + 1), pieces, ends };
    });
}
