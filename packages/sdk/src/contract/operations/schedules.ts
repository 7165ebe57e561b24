import * as schedules from '../schedule.ts';
import type { Operations } from './operation.ts';

export const scheduleOperations = {
  runSchedule: {
    summary: 'Fires a schedule now, also one that is paused.',
    access: 'catalog-write',
    body: schedules.runScheduleRequest,
    reply: schedules.scheduleFire,
    example: { name: 'nightly' },
  },
  scheduleHistory: {
    summary: 'Lists when a schedule fired and when it did not, with the reasons, newest first.',
    access: 'catalog-read',
    body: schedules.scheduleHistoryRequest,
    reply: schedules.scheduleHistoryReply,
    example: { name: 'nightly' },
  },
} as const satisfies Operations;
