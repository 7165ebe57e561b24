/** Functions of more than 60 lines, by file and name. Remove one that you have divided; add none. */
export const longFunctions: readonly string[] = [
  'packages/dashboard/src/home/view/agent-list.tsx AgentList',
  'packages/dashboard/src/home/view/home-page.tsx HomePage',
  'packages/dashboard/src/home/view/list-navigation.ts useRowFocus',
  'packages/dashboard/src/shell/header.tsx AccountMenu',
  'packages/dashboard/src/spawn/view/use-spawn-form.ts useSpawnForm',
];
