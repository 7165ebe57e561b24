import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Api } from './api.ts';

/** Only Linux lets a program without rights lose the packets of its own connection. */
export const canVanish = process.platform === 'linux';
if (!canVanish) process.stderr.write('\n*** TESTS OF CLIENTS THAT VANISH ARE SKIPPED: they need Linux\n\n');

/**
 * Sends a request, reads the beginning of the reply, and drops every packet that comes after it, so that nothing is
 * acknowledged any more, not even a probe. The connection stays open, as on a machine that lost its power.
 */
const script = `
use Socket;
socket(my $socket, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
connect($socket, sockaddr_in($ARGV[0], inet_aton('127.0.0.1'))) or die "connect: $!";
syswrite($socket, $ARGV[1]) or die "write: $!";
sysread($socket, my $beginning, 65536) or die "read: $!";
my $dropAll = pack('SCCL', 6, 0, 0, 0);
setsockopt($socket, SOL_SOCKET, 26, pack('S x![P] P', 1, $dropAll)) or die "filter: $!";
syswrite(STDOUT, "vanished");
sleep;
`;

/** Resolves when it has vanished. */
export async function vanishingClient(api: Api, path: string, body: unknown): Promise<ChildProcess> {
  const text = JSON.stringify(body);
  const request = [
    `POST ${path} HTTP/1.1`,
    'Host: localhost',
    `Authorization: Bearer ${api.key}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(text)}`,
    '',
    text,
  ].join('\r\n');
  const { port } = new URL(api.url);
  const client = spawn('perl', ['-e', script, port, request], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(client.stdout, 'data');
  return client;
}
