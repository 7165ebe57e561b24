import type { IncomingMessage } from 'node:http';
import { isRefusal } from '../../control/refusal.ts';
import type { RouteContext } from '../context.ts';
import { serve } from '../route.ts';
import { bodyOf } from './long-replies.ts';

/** Uploads of images. The body is the image itself, and the query names the agent. */
export function attachmentRoutes(context: RouteContext): void {
  context.app.register(async (app) => {
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
    serve({ ...context, app }, 'uploadAttachment', async ({ control, caller, query, request, reply }) => {
      const agent = await control.commandable(caller, bodyOf('status', query).agentId);
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
      // What is left of a refused body is not read.
      if (isRefusal(uploaded) && !request.raw.readableEnded) reply.header('connection', 'close');
      return uploaded;
    });
  });
}
