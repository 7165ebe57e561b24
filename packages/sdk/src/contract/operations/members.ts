import * as members from '../member.ts';
import { setupReply, setupRequest } from '../setup.ts';
import type { Operations } from './operation.ts';

export const memberOperations = {
  listMembers: {
    summary: 'Lists the accounts of a tenant: their roles, keys, sessions, live agents and spend.',
    access: 'person',
    body: members.listMembersRequest,
    reply: members.listMembersReply,
    example: {},
  },
  updateMember: {
    summary: 'Disables or enables an account, or sets its role.',
    access: 'person',
    body: members.updateMemberRequest,
    reply: members.member,
  },
  setup: {
    summary: 'Returns what is set up and what is missing. Admins can dismiss that list in the dashboard.',
    access: 'person',
    body: setupRequest,
    reply: setupReply,
    example: {},
  },
} as const satisfies Operations;
