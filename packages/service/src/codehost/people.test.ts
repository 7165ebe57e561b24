import { expect, it } from 'vitest';
import { HostError } from '../work/host-error.ts';
import { orNone } from './people.ts';

const refused = (status: number) => Promise.reject(new HostError('refused', status, 'no'));

it('a person whom the host does not know has no permission; a credential that it does not accept is a failure', async () => {
  expect(await orNone(Promise.resolve('write'))).toBe('write');
  expect(await orNone(refused(404))).toBe('none');
  await expect(orNone(refused(401))).rejects.toThrow(HostError);
  await expect(orNone(Promise.reject(new HostError('unknown', 502, 'no')))).rejects.toThrow(HostError);
});
