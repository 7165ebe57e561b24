// A runner that tests kill and stop: `muster runner` without its command line.
import { Runner } from '../../packages/service/dist/runner/runner.js';

const { RUNNER_URL, RUNNER_KEY, RUNNER_NAME, RUNNER_DATA } = process.env;
const say = (level) => (_fields, message) => process.stdout.write(`${level} ${message}\n`);

const runner = new Runner({
  url: RUNNER_URL,
  apiKey: RUNNER_KEY,
  name: RUNNER_NAME,
  dataFolder: RUNNER_DATA,
  rehearses: true,
  harnesses: {},
  providers: {},
  prices: new Map(),
  stallMs: 300_000,
  limitWaitMs: 60_000,
  keepFoldersDays: 7,
  diskReserveGb: 0,
  innerHosts: [],
  checkpointMs: 60_000,
  sandbox: null,
  environment: {},
  tenantAllow: new Map(),
  turnMs: 50,
  build: 'crash-test',
  log: { info: say('info'), warn: say('warn'), error: say('error') },
});
process.stdout.write(`runner ${runner.runnerId}\n`);
// Ends with the test that started it.
process.stdin.resume().on('end', () => process.exit());
