import type { PendingFollowUp } from '@muster/sdk';
import type { FollowUp } from '@muster/sdk/contract';
import type { DragEvent, KeyboardEvent } from 'react';
import { Button } from '../../parts/button.tsx';
import { Menu, type MenuItem } from '../../parts/menu.tsx';
import { plural } from '../../parts/model/text.ts';
import { Age, Countdown, Moment } from '../../parts/times.tsx';
import { hasSettings } from '../model/queue.ts';
import type { SendNow } from './use-queue.ts';

interface QueuedMessageProps {
  readonly followUp: PendingFollowUp;
  /** In the queue; -1 of a scheduled message. */
  readonly place: number;
  readonly count: number;
  readonly isTurnRunning: boolean;
  readonly isBusy: boolean;
  readonly mayChange: boolean;
  readonly onShow: () => void;
  readonly onEdit: () => void;
  readonly onRemove: () => void;
  readonly onMove: (place: number) => void;
  /** Another message was dropped on this one. */
  readonly onDrop: (followUpId: string) => void;
  readonly onSendNow: (how: SendNow) => void;
}

/** A message shows three lines, which hold about this many characters on a phone. */
const shownCharacters = 120;

const isLong = ({ truncated, description }: PendingFollowUp): boolean =>
  truncated || description.length > shownCharacters || description.split('\n', 4).length > 3;

const dragType = 'application/x-muster-message';

export function QueuedMessage(props: QueuedMessageProps) {
  const { followUp, place, count, mayChange, isTurnRunning, onShow, onMove } = props;
  const { followUpId, description } = followUp;
  const name = description.slice(0, 60) || followUpId;
  const isSteering = followUp.steer && isTurnRunning;
  const mayMove = mayChange && place >= 0 && count > 1 && !isSteering;
  const onKeyDown = (event: KeyboardEvent) => {
    if (!mayMove || !event.altKey || !/^Arrow(Up|Down)$/.test(event.key)) return;
    event.preventDefault();
    onMove(place + (event.key === 'ArrowUp' ? -1 : 1));
  };
  return (
    <li
      className="queued-message"
      data-id={followUpId}
      draggable={mayMove}
      onKeyDown={onKeyDown}
      {...dragging(props, mayMove)}
    >
      <div>
        <p className="queued-text" dir="auto">
          {description || 'No text: tasks or settings only.'}
        </p>
        <p className="queued-facts wrap secondary">
          <QueuedSince followUp={followUp} />
          {isSteering && <span>for this turn</span>}
          {settingTexts(followUp).map((text) => (
            <span key={text}>{text}</span>
          ))}
          {followUp.truncated && <span>shortened</span>}
          {isLong(followUp) && (
            <Button look="quiet" aria-label={`Show full text: ${name}`} onClick={onShow}>
              Show full text
            </Button>
          )}
        </p>
      </div>
      {mayChange && <Actions {...props} {...{ name, mayMove, isSteering }} />}
    </li>
  );
}

function dragging({ followUp, onDrop }: QueuedMessageProps, mayMove: boolean) {
  if (!mayMove) return {};
  return {
    onDragStart: (event: DragEvent) => event.dataTransfer.setData(dragType, followUp.followUpId),
    onDragOver: (event: DragEvent) => {
      if (event.dataTransfer.types.includes(dragType)) event.preventDefault();
    },
    onDrop: (event: DragEvent) => {
      const dropped = event.dataTransfer.getData(dragType);
      if (dropped === '') return;
      event.preventDefault();
      event.stopPropagation();
      onDrop(dropped);
    },
  };
}

function QueuedSince({ followUp: { state, deliverAt, queuedAt } }: { readonly followUp: PendingFollowUp }) {
  return state === 'DEFERRED' && deliverAt !== null ? (
    <span>
      scheduled for <Moment at={deliverAt} />, <Countdown to={deliverAt} />
    </span>
  ) : (
    <span>
      queued <Age since={queuedAt} /> ago
    </span>
  );
}

interface ActionsProps extends QueuedMessageProps {
  readonly name: string;
  readonly mayMove: boolean;
  readonly isSteering: boolean;
}

function Actions({ name, mayMove, isSteering, place, count, isBusy, ...props }: ActionsProps) {
  const { followUp, isTurnRunning, onEdit, onRemove, onMove, onSendNow } = props;
  const items = sendItems(followUp, isTurnRunning, isSteering, onSendNow);
  return (
    <div className="queued-actions">
      {mayMove && (
        <>
          <Button
            look="quiet"
            data-move="up"
            aria-label={`Move up: ${name}`}
            title="Move up (Alt+↑)"
            disabled={place === 0}
            onClick={() => isBusy || onMove(place - 1)}
          >
            ↑
          </Button>
          <Button
            look="quiet"
            data-move="down"
            aria-label={`Move down: ${name}`}
            title="Move down (Alt+↓)"
            disabled={place === count - 1}
            onClick={() => isBusy || onMove(place + 1)}
          >
            ↓
          </Button>
        </>
      )}
      {items.length > 0 && (
        <Menu label={`Send now: ${name}`} items={items}>
          Send now
        </Menu>
      )}
      <Button look="quiet" aria-label={`Edit message: ${name}`} onClick={onEdit}>
        Edit
      </Button>
      <Button look="quiet" disabled={isBusy} aria-label={`Remove message: ${name}`} onClick={onRemove}>
        Remove
      </Button>
    </div>
  );
}

function sendItems(
  followUp: PendingFollowUp,
  isTurnRunning: boolean,
  isSteering: boolean,
  onSendNow: (how: SendNow) => void,
): MenuItem[] {
  const isSet = hasSettings(followUp);
  if (followUp.state === 'DEFERRED')
    return [{ title: 'Send now', note: 'Instead of at its time.', onSelect: () => onSendNow('due') }];
  if (!isTurnRunning) return [];
  return [
    ...(isSteering
      ? []
      : [
          {
            title: 'Add to this turn',
            note: isSet ? 'Not possible: it changes settings.' : 'The agent gets it while it works.',
            isDisabled: isSet,
            onSelect: () => onSendNow('steer'),
          },
        ]),
    {
      title: 'Interrupt the turn',
      note: 'It runs next, then the other messages.',
      onSelect: () => onSendNow('interrupt'),
    },
  ];
}

export const settingTexts = (followUp: PendingFollowUp | FollowUp): string[] =>
  [
    followUp.attachmentIds.length > 0 && plural(followUp.attachmentIds.length, 'image'),
    followUp.agent && `persona ${followUp.agent}`,
    followUp.model && `model ${followUp.model}`,
    followUp.reasoningEffort && `effort ${followUp.reasoningEffort}`,
    followUp.serviceTier && `tier ${followUp.serviceTier}`,
    followUp.fastMode !== null && `fast mode ${followUp.fastMode ? 'on' : 'off'}`,
    followUp.outputSchema && 'output schema',
  ].filter((text): text is string => Boolean(text));
