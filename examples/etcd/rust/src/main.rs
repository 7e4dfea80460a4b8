//! Configuration, presence, a lock, an election and a counter: `etcd HOST:PORT TASK`
use std::collections::BTreeMap;

use etcd_client::{
    Client, Compare, CompareOp, Error, GetOptions, KeyValue, LockOptions, PutOptions, ResignOptions,
    Txn, TxnOp, WatchOptions, WatchStream,
};
use futures::future::try_join_all;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let client = Client::connect([&arguments[1]], None).await?;
    let result = match arguments[2].as_str() {
        "config" => config(client).await?,
        "presence" => presence(client).await?,
        "lock" => lock(client).await?,
        "election" => election(client).await?,
        "counter" => counter(client).await?,
        other => panic!("{other} is no task"),
    };
    println!("{result}");
    Ok(())
}

/// Reads settings, and hears of every change.
async fn config(mut client: Client) -> Result<String, Error> {
    client.put("config/colour", "blue", None).await?;
    let now = client.get("config/", Some(GetOptions::new().with_prefix())).await?;
    let mut settings = BTreeMap::new();
    for pair in now.kvs() {
        settings.insert(pair.key_str()?.to_owned(), pair.value_str()?.to_owned());
    }
    let mut changes = watch(&mut client, "config/", now.header().unwrap().revision() + 1).await?;
    client.put("config/colour", "green", None).await?; // as another program does
    let change = next(&mut changes).await?;
    settings.insert(change.key_str()?.to_owned(), change.value_str()?.to_owned());
    Ok(format!("{settings:?}"))
}

/// A key lives as long as the program that keeps its lease alive.
async fn presence(mut client: Client) -> Result<String, Error> {
    let lease = client.lease_grant(2, None).await?.id();
    let (mut keeper, mut answers) = client.lease_keep_alive(lease).await?;
    let alive = tokio::spawn(async move {
        let mut every = tokio::time::interval(std::time::Duration::from_millis(700));
        while keeper.keep_alive().await.is_ok() && answers.message().await.is_ok() {
            every.tick().await;
        }
    });
    let leased = PutOptions::new().with_lease(lease);
    let put = client.put("online/alice", "", Some(leased)).await?;
    let mut changes = watch(&mut client, "online/", put.header().unwrap().revision() + 1).await?;
    alive.abort(); // as if the program had ended
    let gone = next(&mut changes).await?;
    Ok(format!("{} left", gone.key_str()?))
}

/// Several programs change one value, one after the other.
async fn lock(mut client: Client) -> Result<String, Error> {
    client.delete("account", None).await?;
    try_join_all((0..5).map(|_| deposit(client.clone()))).await?;
    Ok(number(&mut client, "account").await?.0.to_string())
}

async fn deposit(mut client: Client) -> Result<(), Error> {
    let lease = client.lease_grant(30, None).await?.id();
    let held = client.lock("lock/account", Some(LockOptions::new().with_lease(lease))).await?;
    let (balance, _) = number(&mut client, "account").await?;
    client.put("account", (balance + 1).to_string(), None).await?;
    client.unlock(held.key()).await?;
    client.lease_revoke(lease).await?;
    Ok(())
}

/// Bob waits until Alice resigns.
async fn election(mut client: Client) -> Result<String, Error> {
    let mut leaders = Vec::new();
    let lease = client.lease_grant(10, None).await?.id(); // to be kept alive while she leads
    let alice = client.campaign("leader", "alice", lease).await?;
    let mut other = client.clone();
    let bob = tokio::spawn(async move {
        let lease = other.lease_grant(10, None).await?.id();
        other.campaign("leader", "bob", lease).await
    });
    let leader = client.leader("leader").await?;
    leaders.push(leader.kv().unwrap().value_str()?.to_owned());
    let hers = ResignOptions::new().with_leader(alice.leader().unwrap().clone());
    client.resign(Some(hers)).await?;
    let bob = bob.await.unwrap()?;
    let leader = client.leader("leader").await?;
    leaders.push(leader.kv().unwrap().value_str()?.to_owned());
    let his = ResignOptions::new().with_leader(bob.leader().unwrap().clone());
    client.resign(Some(his)).await?;
    Ok(format!("{leaders:?}"))
}

/// Transactions succeed only if nobody else counted meanwhile.
async fn counter(mut client: Client) -> Result<String, Error> {
    client.delete("visits", None).await?;
    let mut sums = try_join_all((0..10).map(|_| count(client.clone()))).await?;
    sums.sort();
    Ok(format!("{sums:?}"))
}

async fn count(mut client: Client) -> Result<i64, Error> {
    loop {
        let (before, revision) = number(&mut client, "visits").await?;
        let same = Compare::mod_revision("visits", CompareOp::Equal, revision);
        let put = TxnOp::put("visits", (before + 1).to_string(), None);
        if client.txn(Txn::new().when([same]).and_then([put])).await?.succeeded() {
            return Ok(before + 1);
        }
    }
}

/// A number and the revision of its key; both are 0 if there is none.
async fn number(client: &mut Client, key: &str) -> Result<(i64, i64), Error> {
    let found = client.get(key, None).await?;
    match found.kvs().first() {
        Some(pair) => Ok((pair.value_str()?.parse().unwrap(), pair.mod_revision())),
        None => Ok((0, 0)),
    }
}

async fn watch(client: &mut Client, prefix: &str, from: i64) -> Result<WatchStream, Error> {
    let options = WatchOptions::new().with_prefix().with_start_revision(from);
    client.watch(prefix, Some(options)).await
}

/// The pair of the next event.
async fn next(changes: &mut WatchStream) -> Result<KeyValue, Error> {
    loop {
        let Some(message) = changes.message().await? else {
            return Err(Error::WatchError("the server ended the watch".into()));
        };
        if let Some(pair) = message.events().first().and_then(|event| event.kv()) {
            return Ok(pair.clone());
        }
    }
}
