import type { Task } from '@muster/sdk';

export const sampleTask = (id: string, more: Partial<Task> = {}): Task => ({
  id,
  subject: id,
  description: '',
  status: 'TASK_STATUS_PENDING',
  blocks: [],
  blockedBy: [],
  activation: null,
  persona: '',
  dedupKey: '',
  ephemeral: false,
  ...more,
});
