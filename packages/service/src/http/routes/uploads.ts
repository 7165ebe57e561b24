import type { IncomingMessage } from 'node:http';
import { isRefusal } from '../../control/refusal.ts';
import type { RouteContext } from '../context.ts';
import { serve } from '../route.ts';
import { bodyOf } from './long-replies.ts';

const noBytes = Buffer.alloc(0);

/** How long a refused body may be to be read and dropped. */
const mostDropped = 64 * 1024 * 1024;

/** The body of an upload is the bytes themselves; its query says what they are. */
export function uploadRoutes(context: RouteContext): void {
  context.app.register(async (app) => {
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, bytes, done) => done(null, bytes));
    for (const name of ['runnerSaveCheckpoint', 'runnerSaveAttachment'] as const)
      serve({ ...context, app }, name, async ({ control, caller, query, request }) =>
        control.operations[name](caller, { ...query, content: (request.body as Buffer) ?? noBytes } as never),
      );
  });
  // One of any size is refused with a reply that its sender sees, and what arrives at the same time is limited.
  context.app.register(async (app) => {
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
    serve({ ...context, app }, 'uploadAttachment', async ({ control, caller, query, request, reply }) => {
      const agent = await control.targets.commandable(caller, bodyOf('status', query).agentId, 'others');
      const { 'content-type': type = '', 'content-length': length } = request.headers;
      const body = (request.body ?? request.raw) as IncomingMessage;
      const declared = length === undefined ? undefined : Number(length);
      const uploaded = isRefusal(agent)
        ? agent
        : await control.attachments.upload(
            agent,
            type.split(';')[0]?.trim().toLowerCase() ?? '',
            declared,
            body,
          );
      // A client that still sends when the connection is closed does not see the reply: the rest is read, within limits.
      if (isRefusal(uploaded) && !request.raw.readableEnded) {
        if (declared !== undefined && declared <= mostDropped) request.raw.resume();
        else reply.header('connection', 'close');
      }
      return uploaded;
    });
  });
}
