import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { backends, type Fleet, startFleet } from './fleet.ts';
import { writeResource } from '../support/resources.ts';
let fleet: Fleet;
beforeAll(async () => { fleet = await startFleet(); });
afterAll(() => fleet.close());
describe.each(backends)('$title', ({ model, otherModel, provider }) => {
  it('x', async () => {
    const agents = await fleet.plain();
    await writeResource(fleet.api, 'persona', 'pirate', { instructions: 'Talk like a pirate.' });
    const m = fleet.stub.script([{ shell: 'echo hi' }, { say: 'one' }]);
    await agents.spawn('a', { model: otherModel, description: `First. ${m}` });
    await agents.wait('a');
    const m2 = fleet.stub.script([{ shell: 'echo hi' }, { say: 'two' }]);
    await agents.queue('a', { description: `Second. ${m2}`, model, reasoningEffort: 'xhigh', fastMode: true, agent: 'pirate' });
    await agents.wait('a');
    const m3 = fleet.stub.script([{ say: 'three' }]);
    await agents.queue('a', { description: `Third. ${m3}`, ...(provider === 'openai' && {serviceTier: 'flex'}) });
    await agents.wait('a');
    writeFileSync(`/tmp/dump-${provider}.json`, JSON.stringify(fleet.stub.requests.filter(r=>r.provider===provider), null, 1));
    writeFileSync(`/tmp/dump-${provider}-tl.json`, JSON.stringify(await agents.timeline('a'), null, 1));
  });
});
