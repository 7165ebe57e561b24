/**
 * Runs beside the command of a sandbox. A sandbox has no network but its own loopback; the gateway's socket is a file
 * in it. The relay listens on the loopback and passes each connection on to that socket. Once it listens it says so:
 * to the runner by a byte, and to the shell that started it by the end of its output.
 *
 * File 3 leads to the runner. A byte on it asks everything in here to end; its end means that the runner is gone, and
 * then nothing may be left. CommonJS, because that starts faster and needs no package.json to be in sight.
 */
const { closeSync, openSync } = require('node:fs');
const { connect, createServer, Socket } = require('node:net');

const [address = '', socketPath = '', command = ''] = process.argv.slice(2);

/**
 * Signals every process in here but this one and the init, which hears nothing. The command of a sandbox is always its
 * process 2, so started by mistake outside of one the relay signals nobody.
 * @param {NodeJS.Signals} signal
 */
function signalAll(signal) {
  try {
    if (command === '2') process.kill(-1, signal);
  } catch {
    // Nobody is left to hear it.
  }
}

/** @param {Socket} inner */
function pass(inner) {
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

function sayReady() {
  runner.write('.');
  closeSync(1);
  // A connection must not get its number: Node takes that for a mistake.
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
createServer({ allowHalfOpen: true, noDelay: true }, pass).listen(Number(port), host, sayReady);
