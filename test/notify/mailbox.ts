import type { AddressInfo } from 'node:net';
import { type ParsedMail, simpleParser } from 'mailparser';
import { SMTPServer } from 'smtp-server';

export interface ReceivedMail {
  readonly mail: ParsedMail;
  readonly source: string;
  readonly from: string;
  readonly to: readonly string[];
}

/** An SMTP server that keeps the mail that it receives. */
export class Mailbox {
  readonly received: ReceivedMail[] = [];
  /** Refused with this status, by address. */
  readonly refused = new Map<string, number>();
  readonly url: string;
  readonly close: () => Promise<void>;

  private constructor(url: string, close: () => Promise<void>) {
    this.url = url;
    this.close = close;
  }

  static async start(): Promise<Mailbox> {
    const server = new SMTPServer({
      authMethods: ['PLAIN'],
      allowInsecureAuth: true,
      disabledCommands: ['STARTTLS'],
      onAuth: ({ username, password }, _, done) =>
        username === 'muster' && password === 'a-password'
          ? done(null, { user: username })
          : done(new Error('no')),
      onRcptTo: ({ address }, _, done) => {
        const status = mailbox.refused.get(address);
        done(status ? Object.assign(new Error('refused'), { responseCode: status }) : null);
      },
      onData: async (stream, { envelope }, done) => {
        const source = Buffer.concat(await stream.toArray()).toString();
        const { mailFrom, rcptTo } = envelope;
        mailbox.received.push({
          mail: await simpleParser(source),
          source,
          from: mailFrom ? mailFrom.address : '',
          to: rcptTo.map(({ address }) => address),
        });
        done();
      },
    });
    server.on('error', () => {});
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.server.address() as AddressInfo;
    const mailbox = new Mailbox(
      `smtp://muster:a-password@127.0.0.1:${port}`,
      () => new Promise<void>((resolve) => server.close(() => resolve())),
    );
    return mailbox;
  }
}
