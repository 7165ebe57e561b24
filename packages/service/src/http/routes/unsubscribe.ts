import type { FastifyReply } from 'fastify';
import type { LinkParts } from '../../notify/unsubscribe.ts';
import type { RouteContext } from '../context.ts';
import { HttpError } from '../errors.ts';
import { securityHeaders } from './pages.ts';

interface LinkRequest {
  Params: LinkParts & { readonly [name: string]: string };
}

/**
 * The links of mail that end a notification, for people who are not signed in. Programs that check mail follow links, so
 * only a POST does something: of the button on the page, or of a mail program (RFC 8058).
 */
export function unsubscribeRoutes({ app, notifications }: RouteContext): void {
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    // Mail programs send a form, whose content is always the same.
    scope.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: 1024 }, async () => ({}));
    const url = '/unsubscribe/:tenant/:name/:signature';
    scope.get<LinkRequest>(url, async ({ params }, reply) => {
      const linked = await notifications.linked(params);
      if (!linked) throw unknown();
      const button = '<form method="post"><button>Stop these messages</button></form>';
      return page(reply, `<p>Stop the messages of the notification “${linked.name}”?</p>${button}`);
    });
    scope.post<LinkRequest>(url, async ({ params }, reply) => {
      if (!(await notifications.unsubscribe(params))) throw unknown();
      return page(reply, '<p>The notification is paused. It sends no more messages.</p>');
    });
  });
}

const unknown = (): HttpError =>
  new HttpError('NOT_FOUND', 'this link is not valid any more: the notification was changed or deleted');

/** Its name consists of letters, digits, dots and dashes. */
const page = (reply: FastifyReply, content: string): FastifyReply =>
  reply
    .headers({ ...securityHeaders, 'content-security-policy': "default-src 'none'; form-action 'self'" })
    .type('text/html; charset=utf-8')
    .send(
      `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><title>Muster</title>${content}</html>`,
    );
