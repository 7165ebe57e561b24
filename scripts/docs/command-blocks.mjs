import { exitCodeMeanings } from '../../packages/service/dist/cli/errors.js';
import { buildProgram } from '../../packages/service/dist/cli/program.js';
import { cell } from './markdown.mjs';

const program = buildProgram();

const termOf = (argument) => {
  const name = argument.variadic ? `${argument.name()}...` : argument.name();
  return argument.required ? `<${name}>` : `[${name}]`;
};

const nameOf = (command) =>
  command.parent === null ? command.name() : `${nameOf(command.parent)} ${command.name()}`;

const valuesOf = ({ argChoices, defaultValue }) =>
  [
    argChoices && `one of ${argChoices.join(', ')}`,
    defaultValue !== undefined && typeof defaultValue !== 'boolean' && `default ${defaultValue}`,
  ]
    .filter(Boolean)
    .join('; ');

const rowOf = (term, about) => `| \`${cell(term)}\` | ${cell(about)} |`;

const described = (thing) =>
  [thing.description, valuesOf(thing), thing.mandatory && 'required'].filter(Boolean).join('; ');

/** The arguments and options of a command. */
function tableOf(command) {
  const rows = [
    ...command.registeredArguments
      .filter((argument) => described(argument) !== '')
      .map((argument) => rowOf(termOf(argument), described(argument))),
    ...command.options.map((option) => rowOf(option.flags, described(option))),
  ];
  return rows.length === 0 ? '' : `| | |\n|---|---|\n${rows.join('\n')}`;
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${/[.!?)"]$/.test(text) ? '' : '.'}`;

function usageOf(command) {
  const terms = command.registeredArguments.map(termOf);
  const options = command.options.length > 0 ? ['[options]'] : [];
  return `\`${[nameOf(command), ...terms, ...options].join(' ')}\``;
}

const isDefault = (command) => command.parent._defaultCommandName === command.name();

function leafOf(command, level) {
  const short = isDefault(command) ? ` \`${nameOf(command.parent)}\` alone does this.` : '';
  const heading = `${'#'.repeat(level)} ${nameOf(command).slice('muster '.length)}`;
  return [heading, usageOf(command), `${sentence(command.description())}${short}`, tableOf(command)]
    .filter(Boolean)
    .join('\n\n');
}

function sectionOf(command) {
  if (command.commands.length === 0) return leafOf(command, 3);
  const heading = `### ${nameOf(command).slice('muster '.length)}`;
  const inner = command.commands.map((one) => leafOf(one, 4));
  return [heading, sentence(command.description()), ...inner].join('\n\n');
}

const endings = exitCodeMeanings.map(({ code, meaning }) => `| ${code} | ${cell(meaning)} |`);

/** The groups of the help text. */
const groups = [...new Set(program.commands.map((command) => command.helpGroup()))];
const chapterOf = (group) => {
  const commands = program.commands.filter((command) => command.helpGroup() === group && !command._hidden);
  const title = `## Commands: ${group.replace(/:$/, '').toLowerCase()}`;
  return [title, ...commands.map(sectionOf)].join('\n\n');
};

export const commandBlocks = {
  'the exit codes': ['| code | meaning |', '|---|---|', ...endings].join('\n'),
  'the options of every command': tableOf(program),
  'the commands': groups.map(chapterOf).join('\n\n'),
};
