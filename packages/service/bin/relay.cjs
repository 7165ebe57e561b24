/**
 * Runs next to the command of a sandbox. A sandbox has only its own loopback network; the gateway's socket is a file in
 * it. The relay listens on the loopback and forwards each connection to that socket. When it listens, it sends a byte to
 * the runner and closes its output, which the shell that started it waits for.
 *
 * File descriptor 3 is the control pipe to the runner. A byte asks all processes of the sandbox to exit; if the pipe
 * closes, the runner is gone, and they are killed. CommonJS, because it starts faster and needs no package.json.
 */
const { closeSync, openSync } = require('node:fs');
const { connect, createServer, Socket } = require('node:net');

const [address = '', socketPath = '', command = ''] = process.argv.slice(2);

/**
 * Signals every process of the sandbox except this one and the init, which ignores signals. The command of a sandbox is
 * always its process 2, so a relay that was started outside a sandbox by mistake signals no process.
 * @param {NodeJS.Signals} signal
 */
function signalAll(signal) {
  try {
    if (command === '2') process.kill(-1, signal);
  } catch {
    // No process is left.
  }
}

/** @param {Socket} inner */
function forward(inner) {
  const outer = connect({ path: socketPath, allowHalfOpen: true });
  inner.pipe(outer);
  outer.pipe(inner);
  for (const [one, other] of [
    [inner, outer],
    [outer, inner],
  ]) {
    one.on('error', () => {});
    one.on('close', () => other.destroySoon());
  }
}

function reportReady() {
  runner.write('.');
  closeSync(1);
  // A connection must not get descriptor 1, which Node would treat as an error.
  openSync('/dev/null', 'w');
}

const runner = new Socket({ fd: 3, readable: true, writable: true });
runner.on('data', () => signalAll('SIGTERM'));
runner.on('error', () => {});
runner.on('close', () => {
  signalAll('SIGKILL');
  process.exit(1);
});
const [host, port] = address.split(':');
createServer({ allowHalfOpen: true, noDelay: true }, forward).listen(Number(port), host, reportReady);
