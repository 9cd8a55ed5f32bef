// Loads again and again while the page is visible. Loads never overlap: each load aborts the previous one.

const LONGEST_RETRY = 5_000; // milliseconds: the user may wait for the store to come back

export class Poller {
	#load;
	#every;
	#timer = 0;
	#running = null;
	#failures = 0; // since the last success
	#paused = false;

	/** `load(signal)` resolves to whether it succeeded; `every()` is the time between two loads, in milliseconds. */
	constructor(load, every) {
		this.#load = load;
		this.#every = every;
		document.addEventListener('visibilitychange', () =>
			document.hidden ? clearTimeout(this.#timer) : this.#isIdle || this.now(),
		);
	}

	/** Whether nothing is loaded automatically. A failed load is retried even while paused. */
	get #isIdle() {
		return this.#paused && this.#failures === 0;
	}

	/** While paused, only `now` and retries load. */
	set paused(value) {
		const resumed = this.#paused && !value;
		this.#paused = value;
		if (this.#isIdle) clearTimeout(this.#timer);
		else if (resumed) this.now();
	}

	/** Loads now, even while paused. */
	async now() {
		clearTimeout(this.#timer);
		this.#running?.abort();
		const controller = new AbortController();
		this.#running = controller;
		// An exception is a defect of the dashboard. The polling goes on.
		const succeeded = await this.#load(controller.signal).catch(console.error);
		if (this.#running !== controller) return;
		this.#running = null;
		this.#failures = succeeded ? 0 : this.#failures + 1;
		if (this.#isIdle || document.hidden) return;
		const every = this.#every();
		const wait = this.#failures ? Math.min(every * 2 ** (this.#failures - 1), LONGEST_RETRY) : every;
		this.#timer = setTimeout(() => this.now(), wait);
	}
}
