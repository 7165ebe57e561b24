/** Functions of more than 60 lines, by file and name. Remove one that you have divided; add none. */
export const longFunctions: readonly string[] = [
  'packages/dashboard/src/catalog/view/conflict-view.tsx MergeView',
  'packages/dashboard/src/catalog/view/document-editor.tsx DocumentEditor',
  'packages/dashboard/src/catalog/view/new-resource-dialog.tsx NewResourceDialog',
  'packages/dashboard/src/catalog/view/resource-dialogs.tsx ResourceDialogs',
  'packages/dashboard/src/catalog/view/resource-page.tsx Resource',
  'packages/dashboard/src/catalog/view/text-editor.tsx TextEditor',
  'packages/dashboard/src/home/view/agent-list.tsx AgentList',
  'packages/dashboard/src/home/view/home-page.tsx HomePage',
  'packages/dashboard/src/home/view/list-navigation.ts useRowFocus',
  'packages/dashboard/src/shell/header.tsx AccountMenu',
  'packages/dashboard/src/spawn/view/use-spawn-form.ts useSpawnForm',
];
