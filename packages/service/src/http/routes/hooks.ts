import type { IncomingMessage } from 'node:http';
import type { Received } from '../../deliveries/receive.ts';
import type { RouteContext } from '../context.ts';
import { HttpError } from '../errors.ts';

const problems: Readonly<Record<Exclude<Received, 'accepted' | object>, () => HttpError>> = {
  unknown: () => new HttpError('NOT_FOUND', 'no integration and no trigger has this address'),
  unsigned: () => new HttpError('UNAUTHENTICATED', 'the signature is missing or wrong'),
  busy: () =>
    new HttpError('UNAVAILABLE', 'too many deliveries arrive at the same time; send it again', [], {
      'retry-after': '10',
    }),
  cut: () => new HttpError('INVALID_ARGUMENT', 'the body did not arrive', [], { connection: 'close' }),
};

const tooLarge = (mostBytes: number): HttpError =>
  new HttpError('INVALID_ARGUMENT', `the body must be at most ${mostBytes} bytes`, [], {
    connection: 'close',
  });

/** The webhooks of code hosts, and the addresses of triggers. They have no key: each delivery is signed. */
export function hookRoutes({ app, receiver }: RouteContext): void {
  app.register(async (scope) => {
    // The signature is over the body as it was sent, whatever its type.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
    scope.post<{ Params: { id: string } }>('/hooks/:id', async (request, reply) => {
      const headers = request.headers as Record<string, string | undefined>;
      const body = (request.body ?? request.raw) as IncomingMessage;
      const [, query = ''] = request.url.split('?', 2);
      const received = await receiver.receive(request.params.id, query, headers, body);
      if (typeof received === 'object') throw tooLarge(received.mostBytes);
      if (received !== 'accepted') throw problems[received]();
      return reply.code(202).send({});
    });
  });
}
