import type { TaskStanding } from './task-standing.ts';

/** The sign of a task; the words stand beside it. */
export const TaskMark = ({ standing }: { readonly standing: TaskStanding }) => (
  <svg
    className="task-mark"
    data-standing={standing}
    viewBox="0 0 16 16"
    width="16"
    height="16"
    aria-hidden="true"
  >
    <circle cx="8" cy="8" r="6.25" {...outlines[standing]} />
    {inside[standing]}
  </svg>
);

const outlines: Readonly<Record<TaskStanding, { strokeDasharray?: string }>> = {
  todo: {},
  working: {},
  blocked: {},
  inactive: { strokeDasharray: '2.2 2.7' },
  done: {},
  deleted: {},
};

const inside = {
  todo: null,
  inactive: null,
  working: <path className="filled" d="M8 4.2a3.8 3.8 0 0 1 0 7.6Z" />,
  blocked: <path d="M5 8h6" />,
  done: <path className="tick" d="m5.1 8.2 2 2 3.8-4.2" />,
  deleted: <path d="m5.8 5.8 4.4 4.4m0-4.4-4.4 4.4" />,
};
