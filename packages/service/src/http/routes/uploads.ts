import type { IncomingMessage } from 'node:http';
import { routes } from '@muster/sdk/contract';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { readUpload } from '../../control/read-upload.ts';
import { isRefusal } from '../../control/refusal.ts';
import type { RouteContext } from '../context.ts';
import { serve } from '../route.ts';
import { bodyOf } from './long-replies.ts';

/** How long a refused body may be to be read and dropped. */
const mostDropped = 64 * 1024 * 1024;

/** The body of an upload is the bytes themselves; its query says what they are. */
export function uploadRoutes(context: RouteContext): void {
  context.app.register(async (app) => {
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
    const uploads = { ...context, app };

    serve(uploads, 'uploadAttachment', async ({ control, caller, query, request, reply }) => {
      const agent = await control.targets.commandable(caller, bodyOf('status', query).agentId, 'others');
      const type = request.headers['content-type'] ?? '';
      const uploaded = isRefusal(agent)
        ? agent
        : await control.attachments.upload(
            agent,
            type.split(';')[0]?.trim().toLowerCase() ?? '',
            declaredLength(request),
            bytesOf(request),
          );
      if (isRefusal(uploaded)) readRest(request, reply);
      return uploaded;
    });

    for (const name of ['runnerSaveCheckpoint', 'runnerSaveAttachment'] as const) {
      const most = routes[name].bodyBytes;
      serve(uploads, name, async ({ control, caller, query, request, reply }) => {
        const content = await readUpload(bytesOf(request), most);
        const saved = isRefusal(content)
          ? content
          : await control.operations[name](caller, { ...query, content } as never);
        if (isRefusal(saved)) readRest(request, reply);
        return saved;
      });
    }
  });
}

const bytesOf = ({ body, raw }: FastifyRequest): IncomingMessage => (body ?? raw) as IncomingMessage;

function declaredLength({ headers }: FastifyRequest): number | undefined {
  const length = headers['content-length'];
  return length === undefined ? undefined : Number(length);
}

/** A client that still sends when the connection is closed does not see the reply: the rest is read, within limits. */
function readRest(request: FastifyRequest, reply: FastifyReply): void {
  if (request.raw.readableEnded) return;
  const declared = declaredLength(request);
  if (declared !== undefined && declared <= mostDropped) request.raw.resume();
  else reply.header('connection', 'close');
}
