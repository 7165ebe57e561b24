import { agentPage } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { useTranscript } from './transcript-context.ts';

/** The images of a delivered message, or of a tool. */
export function MessageImages({ ids, of = '' }: { readonly ids: readonly string[]; readonly of?: string }) {
  if (ids.length === 0) return null;
  return (
    <ul className="message-images wrap" aria-label="Images">
      {ids.map((id, i) => (
        <li key={id}>
          <MessageImage id={id} name={`Image ${i + 1}${of && `: ${of}`}`} />
        </li>
      ))}
    </ul>
  );
}

function MessageImage({ id, name }: { readonly id: string; readonly name: string }) {
  const { agentId, client } = useTranscript();
  const { data, error } = useQuery({
    queryKey: ['attachment', agentPage(agentId), id],
    queryFn: async ({ signal }) => {
      const { content, mediaType } = await client.attachments.read(agentId, id, { signal });
      return new Blob([Uint8Array.from(atob(content), (byte) => byte.charCodeAt(0))], { type: mediaType });
    },
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
  const [url, setUrl] = useState('');
  useEffect(() => {
    if (!data) return;
    const made = URL.createObjectURL(data);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [data]);
  if (error) return <p className="secondary">{name} was deleted.</p>;
  if (url === '') return <p className="secondary">Loading {name} …</p>;
  return (
    <a href={url} target="_blank" rel="noreferrer">
      <img src={url} alt={name} />
    </a>
  );
}
