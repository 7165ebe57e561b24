import { faults } from '../../packages/sdk/dist/contract/index.js';
import { cell } from './tables.mjs';

const followed = {
  final: 'FAILED',
  passing: 'RETRYING, then BLOCKED',
  fixable: 'BLOCKED',
};

export const faultBlocks = {
  'the codes of errors': [
    '| code | why | then the agent is |',
    '|---|---|---|',
    ...Object.entries(faults).map(
      ([code, fault]) => `| \`${code}\` | ${cell(fault.why)} | ${followed[fault.class]} |`,
    ),
  ].join('\n'),
};
