import { Markdown } from '../parts/markdown.tsx';
import { Age } from '../parts/times.tsx';
import './question.css';

/** What the agent asks; the answer is written right below it. */
export const Question = ({ text, since }: { readonly text: string; readonly since: string }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached from the keyboard.
  <section className="question" aria-label="Its question" tabIndex={0}>
    <h2>
      Asked <Age since={since} /> ago
    </h2>
    <Markdown text={text || 'It waits for an answer.'} />
  </section>
);
