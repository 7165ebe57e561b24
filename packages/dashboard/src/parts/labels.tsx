import './labels.css';

type Labels = Readonly<Record<string, string>>;

const textsOfLabels = new WeakMap<Labels, readonly string[]>();

/** `key=value` of each. Labels are never changed, only replaced; so what was made of them is kept. */
export function labelTexts(labels: Labels): readonly string[] {
  const known = textsOfLabels.get(labels);
  if (known) return known;
  const texts = Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .sort();
  textsOfLabels.set(labels, texts);
  return texts;
}

export const Label = ({ text }: { readonly text: string }) => (
  <span className="label" title={text}>
    {text}
  </span>
);
