import type { IncomingMessage } from 'node:http';
import { limits } from '@muster/sdk/contract';
import type { Received } from '../../codehost/receive.ts';
import type { RouteContext } from '../context.ts';
import { HttpError } from '../errors.ts';

const problems: Readonly<Record<Exclude<Received, 'accepted'>, () => HttpError>> = {
  unknown: () => new HttpError('NOT_FOUND', 'no integration has this webhook'),
  unsigned: () => new HttpError('UNAUTHENTICATED', 'the signature is missing or wrong'),
  'too-large': () =>
    new HttpError('INVALID_ARGUMENT', `the body must be at most ${limits.deliveryBytes} bytes`, [], {
      connection: 'close',
    }),
  busy: () =>
    new HttpError('UNAVAILABLE', 'too many deliveries arrive at the same time; send it again', [], {
      'retry-after': '10',
    }),
  cut: () => new HttpError('INVALID_ARGUMENT', 'the body did not arrive', [], { connection: 'close' }),
};

/** The webhooks of code hosts. They have no key: each delivery is signed. */
export function hookRoutes({ app, codeHosts }: RouteContext): void {
  app.register(async (scope) => {
    // The signature is over the body as it was sent, whatever its type.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
    scope.post<{ Params: { id: string } }>('/hooks/:id', async (request, reply) => {
      const headers = request.headers as Record<string, string | undefined>;
      const body = (request.body ?? request.raw) as IncomingMessage;
      const received = await codeHosts.receiver.receive(request.params.id, headers, body);
      if (received !== 'accepted') throw problems[received]();
      return reply.code(202).send({});
    });
  });
}
