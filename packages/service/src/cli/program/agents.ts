import type { Command } from 'commander';
import { lazily } from '../lazily.ts';
import { several } from './several.ts';

/** What people do with agents. */
export function addAgentCommands(program: Command): void {
  settings(
    program
      .command('spawn')
      .description('spawn an agent; its work is the text, a file, or what is piped in')
      .argument('[text]', 'what it is to do'),
  )
    .option('-f, --file <file>', 'read the text from a file; - is standard input')
    .option('--name <path>', 'its name, such as fix-login, or parent/child; minted when absent')
    .option('--workspace <name>', 'where it works')
    .option('--expect <text>', 'what is expected of it in the end')
    .option('--task <subject>', 'a task for its checklist; may be repeated', several)
    .option('--label <key=value>', 'a label; may be repeated', several)
    .option('--wait', 'wait until it needs you; the exit code tells how it ended')
    .option('--follow', 'show its transcript until it needs you')
    .action(lazily(() => import('../commands/spawn.ts')));

  program
    .command('ps')
    .description('your agents and their children')
    .option('-a, --all', 'ended ones too')
    .option('--account <account>', "another's agents; * for everybody's")
    .option('--workspace <name>', 'of one workspace')
    .option('--label <key=value>', 'only agents with this label; may be repeated', several)
    .option('-w, --watch', 'keep it up to date')
    .action(lazily(() => import('../commands/ps.ts')));

  program
    .command('status')
    .description('how an agent stands')
    .argument('<agent>', 'such as fix-login, fix-login/tests or workspace:fix-login')
    .action(lazily(() => import('../commands/status.ts')));

  program
    .command('logs')
    .description('the transcript of an agent')
    .argument('<agent>')
    .option('-f, --follow', 'go on as it grows')
    .option('-n, --lines <count>', 'only the newest entries')
    .option('--json', 'entries as they are, one JSON object per line; as -o json')
    .action(lazily(() => import('../commands/logs.ts')));

  program
    .command('runs')
    .description("an agent's turns, newest first: how each ended and what it cost")
    .argument('<agent>')
    .option('--run <number>', 'one turn, with all that it said')
    .action(lazily(() => import('../commands/runs.ts')));

  program
    .command('diff')
    .description("what an agent's branch changed")
    .argument('<agent>')
    .option('--working-tree', 'with what is not committed or not pushed')
    .action(lazily(() => import('../commands/diff.ts')));

  program
    .command('work')
    .description("download an agent's newest checkpoint: its unpushed work and its session, as a tar.gz")
    .argument('<agent>')
    .option('-f, --file <path>', 'where to; - is standard output; default AGENT-work.tar.gz in this folder')
    .option('--force', 'replace the file')
    .action(lazily(() => import('../commands/work.ts')));

  settings(
    program.command('send').description('send an agent a message').argument('<agent>').argument('[text]'),
  )
    .option('-f, --file <file>', 'read the text from a file; - is standard input')
    .option('--task <subject>', 'a task that comes with it; may be repeated', several)
    .option('--id <id>', 'your own id: sent again, it has one effect')
    .option('--preempt', 'before everything else: clears its queue and cuts its turn')
    .option('--replace', 'with --id: take the place of the undelivered message with this id')
    .option('--at <time>', 'deliver it then, such as "tomorrow 9:00"')
    .option('--in <time>', 'deliver it after so long, such as 2h')
    .option('--wait', 'wait until the message was answered; the exit code tells how')
    .option('--follow', 'show its transcript until it needs you')
    .action(lazily(() => import('../commands/send.ts')));

  const queue = program.command('queue').description("an agent's undelivered messages");
  queue
    .command('list', { isDefault: true })
    .description('show them')
    .argument('<agent>')
    .action(lazily(() => import('../commands/queue-list.ts')));
  queue
    .command('show')
    .description('show one, with the run that got it and the answer')
    .argument('<agent>')
    .argument('<id>')
    .action(lazily(() => import('../commands/queue-show.ts')));
  queue
    .command('remove')
    .description('take one back')
    .argument('<agent>')
    .argument('<id>')
    .action(lazily(() => import('../commands/queue-remove.ts')));
  queue
    .command('clear')
    .description('discard all that are queued; deferred ones stay')
    .argument('<agent>')
    .action(lazily(() => import('../commands/queue-clear.ts')));

  const tasks = program.command('tasks').description("an agent's checklist");
  tasks
    .command('list', { isDefault: true })
    .description('show it')
    .argument('<agent>')
    .action(lazily(() => import('../commands/tasks-list.ts')));
  tasks
    .command('add')
    .description('add a task')
    .argument('<agent>')
    .argument('<subject>')
    .option('--description <text>')
    .action(lazily(() => import('../commands/tasks-add.ts')));
  for (const [name, description] of [
    ['start', 'take a task in progress'],
    ['done', 'mark a task completed'],
    ['reopen', 'put a task back to pending'],
    ['delete', 'delete a task'],
  ] as const) {
    tasks
      .command(name)
      .description(description)
      .argument('<agent>')
      .argument('<id>')
      .action(lazily(async () => ({ run: (await import('../commands/tasks-move.ts')).moving(name) })));
  }

  program
    .command('label')
    .description('set labels of an agent; key= removes one; without labels, show them')
    .argument('<agent>')
    .argument('[labels...]', 'such as team=web')
    .action(lazily(() => import('../commands/label.ts')));

  program
    .command('stop')
    .description("stop an agent's turn; the agent stays")
    .argument('<agent>')
    .option('--kill', 'at once, without its result')
    .action(lazily(() => import('../commands/stop.ts')));

  program
    .command('retry')
    .description(
      'run the messages of a blocked agent again, once the fault is fixed; a retrying one immediately',
    )
    .argument('<agent>')
    .option('--wait', 'wait until it needs you; the exit code tells how it ended')
    .option('--follow', 'show its transcript until it needs you')
    .action(lazily(() => import('../commands/retry.ts')));

  program
    .command('reopen')
    .description('reopen an agent that finished or failed, with its session, checklist and branch')
    .argument('<agent>')
    .action(lazily(() => import('../commands/reopen.ts')));

  program
    .command('kill')
    .description('end an agent and every agent it spawned')
    .argument('<agent>')
    .option('-y, --yes', 'do not ask')
    .action(lazily(() => import('../commands/kill.ts')));

  program
    .command('wait')
    .description('wait until an agent needs you; of several, the first. The exit code tells how it ended')
    .argument('[agents...]')
    .option('--all', 'wait for every one of them; the code is the first that is not 0')
    .option('--below <agent>', 'wait for the agents below this one instead')
    .option('--message <id>', 'wait until this message was answered')
    .option('--run <number>', 'wait until this turn has ended')
    .option('--timeout <time>', 'give up after so long, such as 10m')
    .action(lazily(() => import('../commands/wait.ts')));
}

/** What a spawn and a message may set alike. */
function settings(command: Command): Command {
  return command
    .option('--persona <name>', 'its persona')
    .option('--model <name>', 'its model')
    .option('--effort <effort>', 'its reasoning effort')
    .option('--tier <tier>', 'its service tier (Codex)')
    .option('--fast', 'fast mode')
    .option('--no-fast', 'no fast mode')
    .option('--schema <file>', 'a JSON Schema for its structured output');
}
