// Clients for coding agents that speak lines of JSON.

export * from "./browser.js";
export {
    spawnAgent,
    spawnOpalServer,
    startProcess,
    type ProcessOptions,
    type ProcessTransport,
    type SpawnOptions,
} from "./process.js";
